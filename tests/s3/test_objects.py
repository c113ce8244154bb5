"""The object adapter: one contract, whatever the store."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph_sql.errors import NotFound
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import resolve_root
from tests.stores import Place


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest) -> ObjectStore:
    place: Place = request.getfixturevalue("root" if request.param == "s3" else "tmp_path")
    return open_objects(resolve_root(place))


def test_texts_are_written_replaced_and_deleted(objects: ObjectStore) -> None:
    with pytest.raises(NotFound, match=r"a/b\.json"):
        objects.read_text("a/b.json")
    objects.write_text("a/b.json", "é")
    objects.write_text("a/b.json", "ü")

    assert objects.read_text("a/b.json") == "ü"
    assert (objects.exists("a/b.json"), objects.exists("a/b")) == (True, False)
    assert (objects.has_prefix("a"), objects.has_prefix("a/b.json"), objects.has_prefix("b")) == (True, False, False)
    for _ in range(2):
        objects.delete("a/b.json")
    assert not objects.exists("a/b.json")


def test_a_name_is_created_once(objects: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda number: objects.write_text_if_absent("claim", str(number)), range(8)))

    assert sorted(created) == [False] * 7 + [True]
    assert objects.read_text("claim") == str(created.index(True))


def test_directories_are_listed_and_deleted_by_segments(objects: ObjectStore) -> None:
    for name in ("d/b.json", "d/a%2Fx.json", "d/c/e.json", "d/c/f/g.json", "da/h.json"):
        objects.write_text(name, name)
    assert objects.list_dir("d") == ["a%2Fx.json", "b.json", "c"]
    assert objects.list_dir("nothing") == []
    assert objects.read_text("d/a%2Fx.json") == "d/a%2Fx.json"

    for _ in range(2):
        objects.delete_prefix("d")

    assert (objects.list_dir("d"), objects.list_dir("da")) == ([], ["h.json"])


def test_a_text_moves_into_a_new_directory(objects: ObjectStore) -> None:
    objects.write_text("d/a.json", "x")

    objects.rename("d/a.json", "d/aside/a.json")

    assert objects.list_dir("d") == ["aside"]
    assert objects.read_text("d/aside/a.json") == "x"


def test_large_objects_are_written_and_read_in_pieces(objects: ObjectStore) -> None:
    pieces = [bytes([number]) * 700_000 for number in range(20)]

    objects.write_chunks("d/large", iter(pieces))

    with objects.open("d/large") as file:
        assert file.read(700_001) == pieces[0] + pieces[1][:1]
        assert file.read(20_000_000) == (b"".join(pieces))[700_001:]
    with pytest.raises(NotFound):
        objects.open("d/none")


def test_an_object_whose_making_fails_is_not_there(objects: ObjectStore) -> None:
    def pieces() -> object:
        yield b"x" * 6_000_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        objects.write_chunks("d/broken", pieces())  # type: ignore[arg-type]

    assert not objects.exists("d/broken")
