"""The published JSON Schema of migration.json.

python -m migrate_agent.report.schema        writes skill/schema/migration.schema.json
"""

from __future__ import annotations

import json
from typing import Any

from migrate_tools.resources import resource_dir

from migrate_agent.report.model import MigrationReport

SCHEMA_FILE = "schema/migration.schema.json"


def current_schema() -> dict[str, Any]:
    """The schema that the models define now."""
    schema = MigrationReport.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def published_schema() -> dict[str, Any]:
    """The schema that ships with the package."""
    loaded: dict[str, Any] = json.loads((resource_dir("skill") / SCHEMA_FILE).read_text("utf-8"))
    return loaded


def validate(document: dict[str, Any]) -> None:
    """Checks a migration.json against the published schema.

    Raises:
        jsonschema.ValidationError: it does not fit.
    """
    import jsonschema

    jsonschema.Draft202012Validator(published_schema()).validate(document)


def main() -> None:
    """Writes the schema file of a checkout."""
    path = resource_dir("skill") / SCHEMA_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(current_schema(), indent=1) + "\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
