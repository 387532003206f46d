"""Plans that once broke a promise, each with its cause. Add each failing seed of a manual or CI run here."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Mode
from tests.simulation.plan import Deed, Fault, Plan

FOUND: dict[str, Plan] = {
    # The fence could never be confirmed again, because the orchestrator had lost its role on the project.
    "an_admin_takes_our_role_behind_the_fence": Plan(
        165, driver="fence", services=("network",), deeds=(Deed(70, "oust"),)
    ),
    # A user got access between the last inventory and the closing. Services accepted that token for a while.
    "somebody_is_let_in_right_before_the_project_is_disabled": Plan(
        501,
        services=("image", "key-manager"),
        fill=2,
        engines=2,
        stick=0.95,
        deeds=(Deed(14, "create", 0.213), Deed(231, "invite")),
    ),
    # With driver none nothing was locked while two inventories were empty; then the project vanished before it was
    # closed, and both counted although its members could still create something. Found as seed 126619040.
    "a_project_that_was_never_locked_vanishes_after_two_empty_inventories": Plan(
        5, driver="none", services=("network",), stick=0.95, deeds=(Deed(159, "vanish"),)
    ),
    # The simulation itself was wrong: a lien cannot end in the recovery window, in which no plugin lists its service,
    # and the check took that time for the lien's delay. Found as seed 70275711.
    "a_lien_of_a_plugin_lasts_through_the_recovery_window": Plan(
        70275711,
        services=("block-storage",),
        workers=3,
        engines=2,
        obstacle="protected",
        window=600.0,
        lien_types=("block-storage.volume",),
        ending="mend",
        deeds=(Deed(40, "share", 0.6907738557461004),),
    ),
    # The simulation itself was wrong: it removed the reason of a lien and gave the plugin no time to see that. Found as
    # seed 40000931.
    "the_reason_of_a_lien_is_removed_late": Plan(
        40000931,
        services=("compute", "network"),
        obstacle="protected",
        lien_types=("compute.server", "network.network"),
        deeds=(Deed(13, "share", 0.8471660533877895),),
    ),
    # Keystone refused to disable a project, for an admin had made another one below it after the last survey. The
    # deletion said "forbidden" and not what stood in the way. Found as seed 178503727.
    "a_project_is_made_below_after_the_last_survey": Plan(
        178503727,
        workers=1,
        member=True,
        tree=(0, 0),
        faults=(Fault(55, "drop", 0.184),),
        deeds=(Deed(204, "vanish", 0.1863369778706917), Deed(273, "child", 0.651339668444287)),
    ),
    # The simulation itself was wrong: a project was disabled from the beginning and its child enabled, which Keystone
    # does not allow, so a cancelled deletion could never enable the child again. Found as seed 320000618.
    "a_disabled_project_has_a_child": Plan(
        320000618, disabled=True, tree=(0,), deeds=(Deed(290, "cancel", 0.0712658140094865),)
    ),
    # A network was not in the plan, and another project used it. Each delete round said "not_planned", each inventory
    # said "foreign". So the deletion moved between deleting and verifying without end, and was never stalled. Found as
    # seed 520124396652.
    "another_project_uses_an_unplanned_network": Plan(
        520124396652,
        fill=2,
        obstacle="foreign",
        bound=True,
        lien_types=("network.network",),
        deeds=(Deed(41, "remove", 0.225),),
    ),
    # The simulation itself was wrong: an admin stopped a server after the orchestrator had read it as running, and
    # before its recorded stop arrived. A restore starts such a server. Found as seed 122992522.
    "an_admin_stops_a_server_right_before_the_orchestrator_does": Plan(
        122992522,
        services=("compute", "network"),
        regions=2,
        stick=0.8,
        window=600.0,
        stop_servers=True,
        faults=(Fault(113, "store_down", 0.505),),
        deeds=(Deed(172, "switch", 0.07973662521352909), Deed(286, "restore", 0.49326506998935893)),
    ),
    # A user got a role right before the project was disabled, and an admin deleted the project before the close step
    # could see that. The inventories from before counted although a user had had access since. Found as seed 5027.
    "a_project_vanishes_while_it_is_closed_and_a_user_was_let_in": Plan(
        5027,
        mode=Mode.REPORT,
        services=("network", "image", "identity"),
        fill=0,
        faults=(Fault(72, "store_down", 0.327), Fault(123, "store_down", 0.842), Fault(228, "store_down", 0.611)),
        deeds=(Deed(262, "invite", 0.573), Deed(273, "vanish", 0.075)),
    ),
    # The simulation itself was wrong: an inherited role made the drain partial, and was taken right before the project
    # was disabled. Secrets then rest on the last inventory before the closing. The check took the lock for one that
    # held before. Found as seed 5000601.
    "an_inherited_role_is_taken_right_before_the_project_is_disabled": Plan(
        5000601,
        services=("network", "key-manager"),
        fill=2,
        listening=True,
        janitor=True,
        deeds=(Deed(124, "open", 0.677), Deed(284, "open", 0.004)),
    ),
    # The simulation itself was wrong: a recorded stop of a server was not sent, and an admin stopped the server then. A
    # restore starts it. Found as seed 5001902.
    "an_admin_stops_a_server_whose_recorded_stop_did_not_arrive": Plan(
        5001902,
        driver="fence",
        services=("compute", "network"),
        fill=4,
        window=600.0,
        stop_servers=True,
        faults=(Fault(16, "hang", 0.094), Fault(110, "cut", 0.148)),
        deeds=(Deed(120, "switch", 0.0642542424725151), Deed(146, "restore", 0.9356357198319301)),
    ),
    # The simulation had no statement about this: a token is being validated when an admin deletes the project, and the
    # processes of Keystone do not share their cache. Found as seed 5003517.
    "an_admin_deletes_a_project_while_the_processes_share_no_cache": Plan(
        5003517, keystones=3, own_caches=True, deeds=(Deed(22, "vanish", 0.8222962351539406),)
    ),
    # The same: a domain manager lets a user in while the project is being locked, after the last role was taken, and
    # shuts him out before (the first two plans) or after the token cache is purged.
    "a_user_is_let_in_and_shut_out_right_before_the_token_cache_is_emptied": Plan(
        1, deeds=(Deed(49, "open", 0.1), Deed(52, "shut"))
    ),
    "a_user_is_let_in_and_shut_out_while_the_project_is_locked_and_an_engine_listens": Plan(
        1, listening=True, deeds=(Deed(55, "open", 0.4), Deed(56, "shut"))
    ),
    "a_user_is_let_in_before_and_shut_out_after_the_token_cache_is_emptied": Plan(
        1, deeds=(Deed(50, "open", 0.1), Deed(54, "shut"))
    ),
    # The same: others open the closed project, create something, and close it again while its settings are deleted. The
    # orchestrator compares the lock again before it deletes the project.
    "a_port_is_made_while_the_project_settings_are_deleted": Plan(
        1, driver="fence", deeds=(Deed(166, "enable", 0.3), Deed(167, "create", 0.3), Deed(168, "disable", 0.3))
    ),
    # The same, and they delete the project. Its removal takes that for its own delete, whose answer was lost.
    "a_port_is_made_and_the_project_is_deleted_right_before_its_removal": Plan(
        1, driver="fence", deeds=(Deed(166, "enable", 0.3), Deed(167, "create", 0.3), Deed(168, "vanish", 0.3))
    ),
    # The simulation itself was wrong: the store was down when the engine recorded that a scan waits for its second
    # read, and the check counted from that record and not from the first read. Found as seed 108392201.
    "the_store_is_down_when_an_orphan_scan_begins_to_wait": Plan(
        108392201,
        driver="fence",
        services=("network", "key-manager"),
        fill=2,
        workers=3,
        listening=True,
        orphans=True,
        faults=(Fault(27, "store_down", 0.898), Fault(112, "store_lost", 0.366), Fault(119, "store_down", 0.692)),
        deeds=(Deed(65, "scan", 0.4964368676088292), Deed(84, "disable", 0.186), Deed(149, "swap", 0.959)),
    ),
    # An inherited role made the drain partial, and Keystone kept the project enabled for ten minutes, because of a
    # project below it. The secrets were not listed again before the next try. And the check took the lock for one that
    # held before. Found as seed 126075851.
    "keystone_does_not_disable_a_project_that_is_in_use": Plan(
        126075851,
        services=("image", "key-manager"),
        workers=1,
        stick=0.95,
        tree=(0, 1, 0),
        deeds=(
            Deed(2, "swap", 0.089),
            Deed(22, "retry", 0.9086335610480772),
            Deed(105, "open", 0.738),
            Deed(245, "child", 0.9929872940484628),
        ),
    ),
    # The simulation itself was wrong: a survey that fails until the deletion is stalled gives the project back, and the
    # check allowed no purge to fail while its project is there. Found as seeds 2615 and 3424.
    "keystone_is_down_for_so_long_that_a_purge_gives_the_project_back": Plan(
        2615, mode=Mode.PURGE, window=600.0, faults=(Fault(81, "outage", 0.914),), deeds=(Deed(224, "untag", 0.239),)
    ),
}
