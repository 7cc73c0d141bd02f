module mooring.dev/controlplane/kuberay

go 1.26.0

// Only its archive is wanted, for the manifests in it: nothing imports or builds it.
require github.com/ray-project/kuberay/ray-operator v1.4.2
