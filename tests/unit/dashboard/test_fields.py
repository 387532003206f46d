"""The errors of forms, for the summary at the top of a page."""

from django import forms

from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import fields


class Example(fields.Form):
    kind = forms.ChoiceField(label="Kind", choices=[("a", "A")], widget=forms.RadioSelect)
    name = forms.CharField(label="Name")
    note = forms.CharField(label="Note")

    def clean(self):
        raise forms.ValidationError("nothing fits")


def attributes(form, name):
    return form.fields[name].widget.attrs


def test_the_summary_links_to_each_wrong_field_and_the_first_one_has_the_focus():
    form = Example({"kind": "a", "note": ""})
    found = fields.problems([form])
    assert [(each.label, each.field_id) for each in found] == [("", ""), ("Name", "id_name"), ("Note", "id_note")]
    assert "autofocus" in attributes(form, "name") and "autofocus" not in attributes(form, "note")


def test_of_several_forms_only_one_field_has_the_focus():
    forms_ = [Example({"one-kind": "a", "one-name": "n", "one-note": "x"}, prefix="one"), Example({}, prefix="two")]
    found = fields.problems(forms_)
    assert [each.field_id for each in found if each.field_id] == ["id_two-kind_0", "id_two-name", "id_two-note"]


def test_a_form_that_was_not_sent_has_no_problems():
    assert fields.problems([Example()]) == []


def test_text_fields_have_the_class_of_horizon_and_choices_have_not():
    form = Example()
    assert attributes(form, "name")["class"] == "form-control" and "class" not in attributes(form, "kind")
