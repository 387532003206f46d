"""The options that select deletions are the same in each command, and each reaches the API."""

import argparse

from cleanup_orchestrator.osc import deletion, deletion_actions, deletion_filters, summary
from tests.support.cases import each_case

COMMANDS = (
    deletion.ListDeletion,
    summary.SummarizeDeletions,
    *(getattr(deletion_actions, f"{verb}Deletion") for verb in ("Set", "Retry", "Cancel", "Approve", "Restore")),
)


def options(parser):
    return {option for action in parser._actions for option in action.option_strings}


@each_case("command", COMMANDS)
def test_each_command_has_the_options(command):
    alone = argparse.ArgumentParser(add_help=False)
    deletion_filters.add(alone)
    assert options(alone) <= options(command(None, None).get_parser("x"))


FILTERS = {
    "--status": ("live", "status"),
    "--mode": ("purge", "mode"),
    "--origin": ("adopted", "origin"),
    "--ticket": ("CHG-1", "ticket"),
    "--parent": ("11111111-2222-3333-4444-555555555555", "parent_deletion_id"),
    "--since": ("2026-11-21", "created_since"),
    "--until": ("2026-11-21", "created_until"),
    "--changed-since": ("2026-11-21", "changed_since"),
}


def test_every_filter_is_sent(openstack, stub_cloud):
    for option, (value, name) in FILTERS.items():
        openstack("project", "deletion", "list", option, value)
        lists = [each for each in stub_cloud.requests if each["path"] == "/cleanup/v1/deletions"]
        [sent] = lists[-1]["query"][name]
        assert sent.startswith(value), option


@each_case("given", [*FILTERS, "--attention"])
def test_each_option_selects(given):
    parser = argparse.ArgumentParser()
    deletion_filters.add(parser)
    assert not deletion_filters.given(parser.parse_args([]))
    values = [FILTERS[given][0]] if given in FILTERS else []
    assert deletion_filters.given(parser.parse_args([given, *values]))
