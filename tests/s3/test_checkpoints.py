"""Checkpoints of streams on S3, by the names that Hadoop has for it, and in places that cannot be read."""

import json

import pytest

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.spark.checkpoints import query_of
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from tests.stores import S3Place


def test_the_id_of_a_query_is_found_on_s3(root: S3Place) -> None:
    open_objects(resolve_root(root / "arrivals")).write_text("metadata", json.dumps({"id": "f1d2"}))

    for scheme in ("s3:", "s3a:"):
        assert query_of(f"{root / 'arrivals'}/".replace("s3:", scheme, 1)) == "f1d2"
    with pytest.raises(BadRequest, match="cannot be read from its checkpoint"):
        query_of(str(root / "elsewhere"))


def test_other_places_need_a_name_for_the_query() -> None:
    with pytest.raises(BadRequest, match="from its checkpoint hdfs://host/arrivals\nhint: set the option `query_id`"):
        query_of("hdfs://host/arrivals")
