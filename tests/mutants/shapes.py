"""Defects in the shapes of the REST API: a field that is missing, open to all, or not checked."""

from tests.mutants.mutation import Mutation, tests

SHAPES = "cleanup_orchestrator/shapes/"

MUTATIONS = (
    Mutation(
        "A field that lists leave out is required",
        f"{SHAPES}base.py",
        '{"optional": more.get("detail", False), **given}',
        "given",
        tests("shapes/base"),
    ),
    Mutation(
        "The reason of a lien is open to everyone who sees the lien",
        f"{SHAPES}holds.py",
        'open="id project_id origin expires_at"',
        'open="id project_id origin expires_at reason"',
        tests("shapes/render"),
    ),
    Mutation(
        "A field without a value is left out, as if it were optional",
        f"{SHAPES}render.py",
        "        elif each.optional and not hasattr(record, name):\n",
        "        elif not hasattr(record, name):\n",
        tests("shapes/render"),
    ),
    Mutation(
        "A list shows the details of each record",
        f"{SHAPES}render.py",
        "_rendered(shape, shape.in_lists, record, computed)",
        "_rendered(shape, shape.fields.values(), record, computed)",
        tests("shapes/render"),
    ),
    Mutation(
        "A body with an unknown field is accepted",
        f"{SHAPES}schema.py",
        '        "additionalProperties": False,\n',
        '        "additionalProperties": True,\n',
        tests("shapes/schema"),
    ),
    Mutation(
        "A parameter that may be given once is accepted several times",
        f"{SHAPES}schema.py",
        '"maxItems": 20 if name in several else 1',
        '"maxItems": 20',
        tests("shapes/schema"),
    ),
    Mutation(
        "A form accepts a line break at its end",
        f"{SHAPES}forms.py",
        'END = r"$(?!\\n)"',
        'END = r"$"',
        tests("shapes/schema"),
    ),
)
