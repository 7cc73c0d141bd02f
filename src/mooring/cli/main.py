"""Arguments, exit codes, and every mistake as a line on standard error."""

from __future__ import annotations

import argparse
import io
import os
import sys
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import mooring
from mooring.cli.control import ContinueError, Control, add_control, continued
from mooring.cli.decide import decide
from mooring.cli.defragment import defragment
from mooring.cli.demo import GPUS, REPORT, Demo, demo
from mooring.cli.experiment import Choice, openb
from mooring.cli.kant import add_kant, choice_of, kant
from mooring.cli.kube import add_run, add_snapshot
from mooring.cli.measure import add_options, check_window, measure, stretch_of
from mooring.cli.numbers import Output
from mooring.cli.parser import Parser
from mooring.cli.philly import Choice as PhillyChoice
from mooring.cli.philly import philly
from mooring.cli.policy import Standing, check_policy, show_policy
from mooring.cli.replay import replay_file
from mooring.cli.rules import rules_of, rules_of_all
from mooring.cli.show import print_json
from mooring.cli.simulate import (
    add_files,
    add_load,
    compare,
    part,
    simulate,
    trial_of,
)
from mooring.cli.sweep import Sweep, cells_of, sweep
from mooring.cli.traces import Conversion, convert, list_traces
from mooring.config import (
    ConfigError,
    load_scenario,
    policy_schema,
    read_scenario_from,
    scenario_schema,
)
from mooring.config.reader import ReadError
from mooring.config.units import duration
from mooring.engine import EventError
from mooring.engine.check import check_headroom
from mooring.journal import JournalError
from mooring.sim.errors import StudyError
from mooring.sim.far import DASK, LOCAL, RAY
from mooring.sim.mixes.training import CHECKPOINT_S
from mooring.sim.openb import POLICIES
from mooring.sim.philly import NODES, ORDERS
from mooring.sim.saved import SavedError
from mooring.sim.settle import promises_of, standings_of
from mooring.sim.study import NAMED
from mooring.sim.traces import Options, trace_schema
from mooring.words import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mooring.model.scenario import Scenario
    from mooring.sim.study import Trial

_STANDARD_INPUT = "standard input"
FINE, NEGATIVE, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a poor terminal is no reason to fail
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more when it exits, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as end:
        return int(end.code or FINE)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except ConfigError as error:
        return _bad_input(
            ": ".join(filter(None, [error.source, mistake.path, mistake.value, mistake.fix]))
            for mistake in error.mistakes
        )
    except (ContinueError, EventError, JournalError, SavedError) as error:
        return _bad_input([str(error)])
    except StudyError as error:
        return _bad_input(str(error).splitlines())
    except PermissionError as error:  # of a folder that may not even be searched
        if error.filename is None:
            raise
        what = "you have no right to this: get it, or give another"
        return _bad_input([f"{error.filename}: {what}"])


def _bad_input(lines: Iterable[str]) -> int:
    for line in lines:
        print(" ".join(line.split()), file=sys.stderr)
    return BAD_INPUT


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top: argparse.ArgumentParser = Parser(
        "mooring",
        description="One scheduler for all the accelerators of an organisation.",
        epilog="Exit codes: 0 fine, 1 a negative outcome, 2 bad input.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"mooring {mooring.__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_decide(commands)
    _add_defragment(commands)
    _add_policy(commands)
    _add_replay(commands)
    _add_measure(commands)
    _add_experiment(commands)
    _add_traces(commands)
    _add_simulate(commands)
    _add_demo(commands)
    add_run(commands)
    add_snapshot(commands)
    schema = _add(commands, "schema", _schema, "print the JSON schema of scenario files")
    schema.description = "Print the JSON schema of scenario files, for editors and checks."
    kinds = schema.add_mutually_exclusive_group()
    kinds.add_argument("--policy", action="store_true", help="of policy files")
    kinds.add_argument("--trace", action="store_true", help="of traces in the tidy format")
    return top


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def _add(
    commands: Commands, name: str, command: Callable[[argparse.Namespace], int], short: str
) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=short, allow_abbrev=False)
    made.set_defaults(command=command)
    return made


def _add_output(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "-o",
        dest="output",
        metavar="FORMAT",
        choices=("table", "json"),
        default="table",
        help="table (default) or json",
    )


def _add_decide(commands: Commands) -> None:
    made = _add(commands, "decide", _decide, "say what to do at the moment of a scenario")
    made.description = (
        "Read a scenario (YAML or JSON), print what is decided at its moment: which tasks start "
        "on which nodes and devices, and, for everything that waits, why. Nothing is changed."
    )
    made.add_argument("file", metavar="FILE", help="the scenario; - is standard input")
    made.add_argument(
        "--settle",
        action="store_true",
        help="go on until nothing changes: what is bound runs, what is evicted waits again; "
        "exit code 1 if it does not come to rest",
    )
    _add_output(made)


def _add_defragment(commands: Commands) -> None:
    made = _add(commands, "defragment", _defragment, "price moves of running work")
    made.description = (
        "Read a scenario and print which running workloads could be moved so that others start, or "
        "so that fewer nodes are allocated in part; what that costs in GPU-hours, how much earlier "
        "who starts, and fragmentation (GFR) before and after. Nothing is changed."
    )
    made.add_argument("file", metavar="FILE", help="the scenario; - is standard input")
    _add_output(made)


def _add_policy(commands: Commands) -> None:
    made = commands.add_parser("policy", help="check queues and policy, or show them")
    made.description = "Check queues and policy, or show them."
    actions = made.add_subparsers(metavar="ACTION", required=True)
    check = _add(actions, "check", _policy_check, "tell every mistake")
    check.description = (
        "Read a policy file, or a scenario, and print one line about it, or every mistake."
    )
    show = _add(actions, "show", _policy_show, "draw the tree of queues")
    show.description = (
        "Read a policy file, or a scenario, and print its queues as a tree: what each has of every "
        "flavor and resource, its rules, and what of the policy is not the default."
    )
    for action in (check, show):
        action.add_argument("file", metavar="FILE", help="the file; - is standard input")
    _add_output(show)


def _add_replay(commands: Commands) -> None:
    made = _add(commands, "replay", _replay, "feed a journal in again and compare the plans")
    made.description = (
        "Feed the events of a journal to a fresh engine and compare its plans with the recorded "
        "ones. Exit code 1 if they differ."
    )
    made.add_argument("file", metavar="FILE", help="the journal; - is standard input")
    _add_output(made)


def _add_measure(commands: Commands) -> None:
    made = _add(commands, "measure", _measure, "tell what came of a journal")
    add_options(made, _duration, part)
    add_files(made)
    _add_output(made)


def _add_experiment(commands: Commands) -> None:
    made = commands.add_parser("experiment", help="run a study with published results")
    made.description = "Run a study with published results."
    studies = made.add_subparsers(metavar="STUDY", required=True)
    study = _add(studies, "openb", _openb, "packing of shared GPUs (FGD, USENIX ATC 2023)")
    study.description = (
        "Place the arrivals of the openb pod files one by one, each at once or never, and print "
        "the part of the GPUs in use (GAR) as the load grows. The policies fgd, best-fit, "
        "dot-prod, gpu-packing and gpu-clustering give the published numbers."
    )
    _add_folder(study)
    study.add_argument(
        "--file",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="pod files; default all",
    )
    study.add_argument(
        "--policy",
        metavar="NAME",
        nargs="+",
        action="extend",
        choices=tuple(POLICIES),
        default=[],
        help=f"default all: {', '.join(POLICIES)}",
    )
    study.add_argument(
        "--seed",
        metavar="N",
        nargs="+",
        action="extend",
        type=_whole(0, 1 << 32),
        default=[],
        help="orders of arrival; default all",
    )
    study.add_argument(
        "--jobs", metavar="N", type=_whole(1, 1024), default=0, help="processes; default one a core"
    )
    study.add_argument(
        "--lead",
        action="store_true",
        help="how far default is ahead of fgd and first-fit (or --policy), a row a file",
    )
    study.add_argument(
        "--figure", metavar="FILE", default="", help="the same, and draw it to an SVG file"
    )
    _add_output(study)
    _add_philly(studies)
    study = _add(studies, "kant", _kant, "clusters of several sizes and kinds, by policy")
    add_kant(study, _whole, part)
    _add_output(study)


def _kant(arguments: argparse.Namespace) -> int:
    return kant(choice_of(arguments))


def _add_philly(studies: Commands) -> None:
    study = _add(studies, "philly", _philly, "queueing of the Philly jobs, by policy")
    study.description = (
        "Run the 82,247 Philly jobs on one cluster of 8-GPU nodes under each policy, all with the "
        "same placement, and print how long they wait: completion less submission less duration."
    )
    _add_folder(study)
    study.add_argument(
        "--nodes",
        metavar="N",
        nargs="+",
        type=_whole(16, 100_000),
        default=NODES,
        help=f"default {' and '.join(map(str, NODES))}",
    )
    study.add_argument(
        "--policy",
        metavar="NAME",
        nargs="+",
        choices=tuple(ORDERS),
        default=tuple(ORDERS),
        help=f"default all: {', '.join(ORDERS)}",
    )
    study.add_argument(
        "--jobs", metavar="N", type=_whole(1, 1024), default=0, help="processes; default one a core"
    )
    study.add_argument("--figure", metavar="FILE", default="", help="draw it to an SVG file too")
    _add_output(study)


def _philly(arguments: argparse.Namespace) -> int:
    jobs = arguments.jobs or os.cpu_count() or 1
    chosen = arguments.traces, arguments.nodes, arguments.policy, jobs
    choice = PhillyChoice(*chosen, figure=arguments.figure)
    return philly(choice, as_json=arguments.output == "json")


def _add_traces(commands: Commands) -> None:
    made = commands.add_parser("traces", help="list traces, or convert them")
    made.description = "List traces, or write them in the tidy format."
    actions = made.add_subparsers(metavar="ACTION", required=True)
    listing = _add(actions, "list", _traces_list, "what is here, and where to get the rest")
    listing.description = (
        "Print which traces are in a folder, with rows, span and GPUs, and from which public "
        "repository to get those that are not."
    )
    conversion = _add(actions, "convert", _traces_convert, "write a trace in the tidy format")
    conversion.description = (
        "Read a trace and write its workloads, and beside them its nodes and queues, in the tidy "
        "format: CSV, JSON lines (both may be gzipped) or Parquet, by the end of the name."
    )
    conversion.add_argument("trace", metavar="TRACE", help="a name of mooring traces list, or FILE")
    conversion.add_argument("out", metavar="OUT", help="the file to write")
    for action in (listing, conversion):
        _add_folder(action)
        _add_output(action)
    add_trace_options(conversion)


def _add_folder(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--traces",
        metavar="DIR",
        default=os.environ.get("MOORING_TRACES") or ".",
        help="folder of the traces; default MOORING_TRACES of the environment, or here",
    )


def add_trace_options(to: argparse.ArgumentParser) -> None:
    """Add the options of everything that reads a trace; `trace_options` makes them of it."""
    to.add_argument(
        "--nodes",
        metavar="N",
        type=_whole(1, 200_000),
        default=0,
        help="how many nodes; of a trace with nodes the first N; default as many as it needs",
    )
    to.add_argument(
        "--gpus", metavar="N", type=_whole(1, 62), default=8, help="GPUs of such a node; default 8"
    )
    to.add_argument(
        "--nodes-of", metavar="TRACE", default="", help="use the nodes of this trace instead"
    )
    to.add_argument(
        "--since",
        metavar="TIME",
        type=_duration,
        default=0.0,
        help="only what comes from then on, like 7d or 36h; time begins there",
    )
    to.add_argument(
        "--until", metavar="TIME", type=_duration, default=inf, help="only what comes before"
    )
    to.add_argument(
        "--queue",
        metavar="FROM=TO",
        type=_pair,
        action="append",
        default=[],
        help="put the work of one queue into another; *=TO: all the others",
    )
    to.add_argument(
        "--known", action="store_true", help="give every workload its run time as estimate"
    )
    to.add_argument(
        "--checkpoint",
        metavar="TIME",
        type=_duration,
        default=0.0,
        help="how often work saves what is done where the trace does not say; default never",
    )
    to.add_argument(
        "--skip-broken", action="store_true", help="leave out rows that are broken, and count them"
    )


def trace_options(arguments: argparse.Namespace) -> Options:
    """Return what was given by the options of `add_trace_options`."""
    check_window(arguments.since, arguments.until)
    return Options(
        nodes=arguments.nodes,
        gpus=arguments.gpus,
        since_s=arguments.since,
        until_s=arguments.until,
        queues=tuple(arguments.queue),
        nodes_of=arguments.nodes_of,
        known=arguments.known,
        checkpoint_s=arguments.checkpoint,
        skip_broken=arguments.skip_broken,
    )


def _add_simulate(commands: Commands) -> None:
    one = _add(commands, "simulate", _simulate, "run a policy on made-up work or a trace")
    one.description = (
        "Run one policy on a mix or a trace in virtual time, with the same engine that runs a "
        "cluster, and print what came of it: allocation, occupation, fragmentation, waits by size."
    )
    one.add_argument("--policy", metavar="POLICY", default="default", help=_POLICY)
    one.add_argument("--seed", metavar="N", type=_whole(0, 1 << 32), default=0, help="default 0")
    one.add_argument("--journal", metavar="FILE", default="", help="write a journal")
    one.add_argument(
        "--follow", metavar="NAME", nargs="+", default=[], help="tell when these workloads start"
    )
    add_control(one, _duration)
    many = _add(commands, "compare", _compare, "run several policies on the same work")
    many.description = (
        "Run several policies on the same work, with several seeds, and print them side by side "
        "with 95 % confidence intervals, and the workloads that wait longer than under the first."
    )
    grid = _add(commands, "sweep", _sweep, "run a grid of policies, seeds and loads")
    grid.description = (
        "Run every policy with every seed on every load, and append a row for each run to a file "
        "as it is done. Runs that the file has already are not made again, so that a sweep can be "
        "broken off and continued, or made larger."
    )
    grid.add_argument("file", metavar="FILE", help="the rows: JSON lines, or CSV by its name")
    grid.add_argument(
        "--on",
        metavar="WHERE",
        default=LOCAL,
        help=f"{LOCAL} (default), or a cluster: {DASK}HOST:PORT, {RAY}HOST:PORT or {RAY}auto",
    )
    for made in (many, grid):
        _add_runs(made)
    for made in (one, many, grid):
        add_load(made, _whole, many=made is grid)
        if made is not grid:
            add_files(made)
        _add_folder(made)
        add_trace_options(made)
        _add_output(made)


def _add_runs(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--policy",
        metavar="POLICY",
        nargs="+",
        default=["fifo", "best-effort", "default"],
        help=f"{_POLICY}; default fifo best-effort default",
    )
    to.add_argument(
        "--seed", metavar="N", nargs="+", type=_whole(0, 1 << 32), default=[0], help="default 0"
    )
    to.add_argument(
        "--jobs", metavar="N", type=_whole(1, 1024), default=0, help="processes; default one a core"
    )


_POLICY = (
    f"{', '.join(NAMED)}, or a policy file; NAME=POLICY gives it a name, and "
    "POLICY,order=PATH,score=PATH,filter=PATH own functions: FILE.py:FUNCTION or MODULE:FUNCTION"
)


def _simulate(arguments: argparse.Namespace) -> int:
    if arguments.saved:
        return simulate(*_continued(arguments))
    _check_work(arguments, ["simulate"])
    trial = trial_of(arguments, trace_options(arguments))
    rules = rules_of(arguments.policy)
    trial = replace(
        trial,
        rules=rules,
        seed=arguments.seed,
        journal=arguments.journal,
        follow=tuple(dict.fromkeys(arguments.follow)),
    )
    control = Control(arguments.stop_at, arguments.save, arguments.pace)
    return simulate(trial, _output_of(arguments), control)


def _continued(arguments: argparse.Namespace) -> tuple[Trial, Output, Control]:
    usual = parser().parse_args(["simulate"])
    trial, control = continued(arguments, lambda name: getattr(usual, name))
    return trial, _output_of(arguments), control


_OF_MIX = ("mix", "cluster", "load")
_OF_TRACE = ("nodes", "gpus", "nodes_of", "since", "until", "known", "checkpoint", "skip_broken")


def _check_work(arguments: argparse.Namespace, words: list[str]) -> None:
    """Raise an error if options are given that say nothing about the work that is chosen."""
    usual = vars(parser().parse_args(words))
    names = _OF_MIX if arguments.trace else _OF_TRACE
    given = [name for name in names if getattr(arguments, name) != usual[name]]
    has_chance = not arguments.trace or arguments.node_failures not in (0.0, [0.0])
    if not has_chance and isinstance(arguments.seed, list) and len(set(arguments.seed)) > 1:
        given.append("seed")
    if given:
        options = listed(["--" + name.replace("_", "-") for name in given])
        here = "with --trace" if arguments.trace else "without --trace"
        often = f": work of a mix saves what is done every {CHECKPOINT_S / 60:g} minutes"
        why = often if "checkpoint" in given else ""
        raise StudyError(f"{options} {'says' if len(given) == 1 else 'say'} nothing {here}{why}")


def _compare(arguments: argparse.Namespace) -> int:
    _check_work(arguments, ["compare"])
    trial = replace(trial_of(arguments, trace_options(arguments)), keeps_waits=True)
    trials = [
        replace(trial, rules=rules, seed=seed)
        for seed in dict.fromkeys(arguments.seed)
        for rules in rules_of_all(arguments.policy)
    ]  # seed by seed, so that what is broken off can be compared
    return compare(trials, arguments.jobs or os.cpu_count() or 1, _output_of(arguments))


def _sweep(arguments: argparse.Namespace) -> int:
    _check_work(arguments, ["sweep", "FILE"])
    cells, jobs = cells_of(arguments, trace_options(arguments)), arguments.jobs or os.cpu_count()
    is_json = arguments.output == "json"
    return sweep(Sweep(cells, arguments.file, arguments.on, jobs or 1, is_json))


def _output_of(arguments: argparse.Namespace) -> Output:
    is_json = arguments.output == "json"
    return Output(is_json, arguments.report, arguments.data, arguments.out)


def _add_demo(commands: Commands) -> None:
    made = _add(commands, "demo", _demo, "see a day of a lab under three policies")
    made.description = (
        "Run one day of a made-up lab under strict FIFO, best-effort and Mooring's default, and "
        "show what each did: the cluster at the height of the day, curves, a table, and a page "
        "with all of it (HTML), which is opened where there is a display. It takes half a minute."
    )
    made.add_argument(
        "--cluster",
        metavar="GPUS",
        type=_whole(8, 100_000),
        default=GPUS,
        help=f"default {GPUS}; larger ones take longer",
    )
    made.add_argument(
        "--hours", metavar="N", type=_whole(1, 240), default=24, help="of the lab; default 24"
    )
    made.add_argument("--seed", metavar="N", type=_whole(0, 1 << 32), default=0, help="default 0")
    made.add_argument("--report", metavar="FILE", default=REPORT, help=f"default {REPORT}")
    made.add_argument("--no-open", action="store_true", help="do not open it in a browser")
    _add_output(made)
    made.add_argument(
        "--jobs", metavar="N", type=_whole(1, 1024), default=0, help="processes; default one a core"
    )


def _whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return number

    return read


def _duration(text: str) -> float:
    """Read seconds, or a duration like 7d or 36h."""
    try:
        return duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ReadError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _pair(text: str) -> tuple[str, str]:
    """Read `FROM=TO`."""
    before, _, after = text.partition("=")
    if not before or not after:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FROM=TO")
    return before, after


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


def _decide(arguments: argparse.Namespace) -> int:
    scenario = _scenario(arguments.file)
    try:
        return decide(scenario, until_settled=arguments.settle, as_json=arguments.output == "json")
    except EventError as error:
        return _bad_input([f"{_source(arguments.file)}: {error}"])


def _defragment(arguments: argparse.Namespace) -> int:
    scenario = _scenario(arguments.file)
    try:
        return defragment(scenario, as_json=arguments.output == "json")
    except EventError as error:
        return _bad_input([f"{_source(arguments.file)}: {error}"])


def _policy_check(arguments: argparse.Namespace) -> int:
    source = _source(arguments.file)
    scenario = _scenario(arguments.file)
    try:
        check_headroom(scenario.policy, scenario.queues, scenario.nodes)
    except EventError as error:
        return _bad_input([f"{source}: {error}"])
    return check_policy(scenario, source)


def _policy_show(arguments: argparse.Namespace) -> int:
    scenario = _scenario(arguments.file)
    try:
        standings = {key: Standing(*pair) for key, pair in standings_of(scenario).items()}
        promises = promises_of(scenario)
    except EventError as error:
        return _bad_input([f"{_source(arguments.file)}: {error}"])
    return show_policy(scenario, standings, promises, as_json=arguments.output == "json")


def _replay(arguments: argparse.Namespace) -> int:
    return replay_file(arguments.file, as_json=arguments.output == "json")


def _measure(arguments: argparse.Namespace) -> int:
    return measure(arguments.files, stretch_of(arguments), _output_of(arguments))


def _openb(arguments: argparse.Namespace) -> int:
    jobs = arguments.jobs or getattr(os, "process_cpu_count", os.cpu_count)() or 1
    chosen = arguments.traces, arguments.file, arguments.policy, arguments.seed, jobs
    is_lead = arguments.lead or bool(arguments.figure)
    choice = Choice(*chosen, is_lead, arguments.figure)
    return openb(choice, as_json=arguments.output == "json")


def _traces_list(arguments: argparse.Namespace) -> int:
    return list_traces(arguments.traces, as_json=arguments.output == "json")


def _traces_convert(arguments: argparse.Namespace) -> int:
    asked = Conversion(arguments.trace, arguments.out, arguments.traces)
    return convert(asked, trace_options(arguments), as_json=arguments.output == "json")


def _demo(arguments: argparse.Namespace) -> int:
    chosen = arguments.cluster, arguments.hours, arguments.seed, arguments.report
    jobs, is_json = arguments.jobs or os.cpu_count() or 1, arguments.output == "json"
    return demo(Demo(*chosen, not arguments.no_open, jobs, is_json))


def _schema(arguments: argparse.Namespace) -> int:
    make = (
        trace_schema if arguments.trace else policy_schema if arguments.policy else scenario_schema
    )
    print_json(make())
    return FINE


def _source(path: str) -> str:
    """Return what a file is called in mistakes."""
    return path if path != "-" else _STANDARD_INPUT


def _scenario(path: str) -> Scenario:
    if path != "-":
        return load_scenario(path)
    return read_scenario_from(sys.stdin.buffer, _STANDARD_INPUT)
