module mooring.dev/controlplane/training-operator

go 1.26.0

// Only its archive is wanted, for the manifests in it: nothing imports or builds it.
require github.com/kubeflow/training-operator v1.9.3
