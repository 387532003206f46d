"""Tests whose subject is real time: how fast, how soon, how many in a second."""

import pytest

#: A machine that stands still for a second makes such a test measure the machine: then it is measured again. What is
#: really too slow is too slow three times in a row. For nothing else: any other test that fails now and then has a bug.
measures_time = pytest.mark.flaky(reruns=2, reruns_delay=3)
