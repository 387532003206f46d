"""A Keystone that lacks what the fence and the guard rest on does not start with this package."""

import sys
import types

import pytest

from cleanup_orchestrator.keystone import assumptions, guard

#: The functions that the tests put in place of wrapped methods are of this module of the package.
OURS = {"__name__": guard.__name__}


def method(ours=True):
    return types.FunctionType((lambda self: None).__code__, OURS if ours else {"__name__": "keystone.core"})


def api(names, **more):
    return type("Manager", (), {**{name: method() for name in names}, **more})()


@pytest.fixture
def keystone(monkeypatch):
    """The parts of a Keystone in which everything is installed, by their module."""
    driver = api(("update_project", *assumptions._DRIVER))
    apis = {name: api(names) for name, names in assumptions._WRAPPED.items()}
    apis["resource_api"].driver = driver
    apis["oauth_api"] = types.SimpleNamespace(driver=api(["authorize_request_token"]))
    token = type("TokenModel", (), dict.fromkeys(assumptions._TOKEN))
    modules = {
        "keystone": {},
        "keystone.api": {},
        "keystone.api.projects": {"_build_project_target_enforcement": None},
        "keystone.common": {},
        "keystone.common.authorization": {"AUTH_CONTEXT_ENV": ""},
        "keystone.common.context": {"REQUEST_CONTEXT_ENV": ""},
        "keystone.common.provider_api": {"ProviderAPIs": types.SimpleNamespace(**apis)},
        "keystone.models": {},
        "keystone.models.token_model": {"TokenModel": token},
    }
    made = {name: types.SimpleNamespace(**values) for name, values in modules.items()}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    return types.SimpleNamespace(apis=apis, token=token, driver=driver, modules=made)


def test_a_keystone_with_everything_is_supported(keystone):
    assumptions.check()


@pytest.mark.parametrize(
    ("name", "wrapped"), [(api, one) for api, all_ in assumptions._WRAPPED.items() for one in all_]
)
def test_each_method_must_be_ours(keystone, name, wrapped):
    setattr(type(keystone.apis[name]), wrapped, method(ours=False))
    with pytest.raises(assumptions.Unsupported, match=f"a {name} whose {wrapped} is checked"):
        assumptions.check()


@pytest.mark.parametrize("name", assumptions._TOKEN)
def test_each_attribute_of_a_token_must_be_there(keystone, name):
    delattr(keystone.token, name)
    with pytest.raises(assumptions.Unsupported, match=f"lacks {name} of the tokens"):
        assumptions.check()


@pytest.mark.parametrize("name", assumptions._DRIVER)
def test_the_driver_must_have_what_the_hook_calls(keystone, name):
    delattr(type(keystone.driver), name)
    with pytest.raises(assumptions.Unsupported, match=f"{name} of the resource driver"):
        assumptions.check()


def test_the_driver_must_count_the_fences(keystone):
    type(keystone.driver).update_project = method(ours=False)
    with pytest.raises(assumptions.Unsupported, match="fences are counted"):
        assumptions.check()


def test_the_driver_of_oauth1_must_check_authorizations(keystone):
    type(keystone.apis["oauth_api"].driver).authorize_request_token = method(ours=False)
    with pytest.raises(assumptions.Unsupported, match="authorizations are checked"):
        assumptions.check()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("keystone.api.projects", "_build_project_target_enforcement"),
        ("keystone.common.context", "REQUEST_CONTEXT_ENV"),
        ("keystone.common.authorization", "AUTH_CONTEXT_ENV"),
    ],
)
def test_each_private_name_must_be_there(keystone, module, name):
    delattr(keystone.modules[module], name)
    with pytest.raises(assumptions.Unsupported, match=f"{name} of {module}"):
        assumptions.check()
