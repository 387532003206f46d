"""A scrape of the monitoring port: the figures of the store, and a store that does not answer."""

import re

from prometheus_client import CollectorRegistry, generate_latest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import StepState
from cleanup_orchestrator.monitoring import server
from cleanup_orchestrator.store import Figures
from tests.support.scheduler import Active

FIGURES = Figures({"deleted": 3, "deleting": 2}, 1, {"running": 4}, 12.5, 0.5, 6, 7, True, 8)


def hang():
    Active.simulation.sleep(30.0)
    return "late"


def scraped(play, figures):
    registry = CollectorRegistry()
    registry.register(server.StoreCollector(figures))
    (text,) = play.run(lambda: generate_latest(registry).decode())
    return text


def test_every_status_has_a_series_also_when_there_is_no_such_deletion(play):
    text = scraped(play, lambda: FIGURES)
    assert set(re.findall(r'_deletions\{status="(\w+)"\}', text)) == {str(s) for s in Status}
    assert 'cleanup_orchestrator_deletions{status="deleted"} 3.0' in text
    assert 'cleanup_orchestrator_deletions{status="failed"} 0.0' in text
    assert f'cleanup_orchestrator_steps_under_way{{state="{StepState.RUNNING}"}} 4.0' in text
    others = {
        "store_up": 1, "deletions_stalled": 1, "deletions_blocked": 8, "deletions_held": 6, "liens": 7, "brake_on": 1,
        "unclaimed_step_age_seconds": 12.5, "overdue_seconds": 0.5,
    }  # fmt: skip
    assert {
        name for name, value in others.items() if f"cleanup_orchestrator_{name} {float(value)}" not in text
    } == set()


def test_a_store_that_does_not_answer_gives_no_old_figures(play):
    def away():
        raise ConnectionError("postgresql://cleanup:hush@db/cleanup is away")

    text = scraped(play, away)
    assert "cleanup_orchestrator_store_up 0.0" in text
    assert "_deletions" not in text and "hush" not in text


def test_a_store_that_hangs_is_waited_for_five_seconds(play):
    text = scraped(play, hang)
    assert "cleanup_orchestrator_store_up 0.0" in text and "_deletions" not in text
    assert play.now == 5.0


def test_simultaneous_scrapes_cost_one_query(play):
    asked = []

    def figures():
        asked.append(play.now)
        play.simulation.sleep(0.1)
        return FIGURES

    registry = CollectorRegistry()
    registry.register(server.StoreCollector(figures))
    assert asked == []  # registering does not ask
    play.run(*[lambda: generate_latest(registry)] * 20)
    assert asked == [0.0]
    play.sleep(9.5)
    play.run(lambda: generate_latest(registry))
    assert asked == [0.0]
    play.sleep(0.5)
    play.run(lambda: generate_latest(registry))
    assert len(asked) == 2
