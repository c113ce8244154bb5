"""Reachability, cycles, negation, properties of edges, and look-ups by key."""

from __future__ import annotations

from bench.workloads import Workload


def reach(hops: int, sources: int) -> Workload:
    """Count the pairs of a source and a person within so many hops."""
    return Workload(
        name=f"reach_{hops}_from_{sources}",
        title=f"pairs within {hops} hops of {sources:,} {'person' if sources == 1 else 'persons'}, counted",
        gq=f"""
        query q($sources: I64) {{
          match {{
            $a: Person
            $a.number < $sources
            $a follows{{1,{hops}}} $b
          }}
          return {{ count($b) as pairs }}
        }}
        """,
        sql=_levels(hops),
        cypher=f"""
        match (a:Person)-[:Follows* shortest 1..{hops}]->(b:Person)
        where a.number < $sources and a.number <> b.number
        return count(*)
        """,
        target=1.0,
        params={"sources": sources},
        duckdb=_SEARCH.format(hops=hops),
    )


_SEARCH = """
with recursive r(s, v, d) using key (s, v) as (
  select id, id, 0 from person where id < $sources
  union
  select r.s, f.dst, min(r.d) + 1
  from r join follows f on f.src = r.v left join recurring.r seen on seen.s = r.s and seen.v = f.dst
  where seen.v is null and r.d < {hops}
  group by r.s, f.dst
)
select count(*) from r where s <> v
"""


def _levels(hops: int) -> str:
    """Expand level by level, with staying as a step: the last level has the pairs within so many hops."""
    levels = ["l0 as (select p.id as s, p.id as v from person p where p.number < $sources)"]
    levels += [
        f"l{level} as (select distinct l.s, f.dst as v from l{level - 1} l join steps f on f.src = l.v)"
        for level in range(1, hops + 1)
    ]
    steps = "steps as (select src, dst from follows union all select id as src, id as dst from person)"
    return f"with {', '.join([steps, *levels])} select count(*) from l{hops} where s <> v"


REACH = tuple(reach(hops, sources) for hops in (3, 6) for sources in (1, 100, 10_000))

TRIANGLES = Workload(
    name="triangles",
    title="triangles, counted",
    gq="""
    query q() {
      match {
        $a follows $b
        $b follows $c
        $c follows $a
      }
      return { count($a) as triangles }
    }
    """,
    sql="select count(*) from follows f join follows g on g.src = f.dst join follows h on h.src = g.dst and h.dst = f.src",
    cypher="match (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(a) return count(*)",
    target=1.0,
)
FOLLOWED_BY_NOBODY = Workload(
    name="followed_by_nobody",
    title="persons whom nobody follows, counted",
    gq="""
    query q() {
      match {
        $p: Person
        not { $_ follows $p }
      }
      return { count($p) as persons }
    }
    """,
    sql="select count(*) from person p where not exists (select 1 from follows f where f.dst = p.id)",
    cypher="match (p:Person) where not exists { match (p)<-[:Follows]-(:Person) } return count(*)",
    target=1.0,
)
NO_YOUNG_IDOLS = Workload(
    name="no_young_idols",
    title="persons who follow nobody under 20, by gender",
    gq="""
    query q($age: I32) {
      match {
        $p: Person
        not {
          $p follows $q
          $q.age < $age
        }
      }
      return { $p.gender, count($p) as persons }
      order { persons desc }
    }
    """,
    sql="""
    select p.gender, count(*) as persons from person p
    where not exists (select 1 from follows f join person q on q.id = f.dst where f.src = p.id and q.age < $age)
    group by p.gender order by persons desc, p.gender
    """,
    cypher="""
    match (p:Person) where not exists { match (p)-[:Follows]->(q:Person) where q.age < $age }
    return p.gender as gender, count(*) as persons order by persons desc, gender
    """,
    target=1.0,
    params={"age": 20},
)
ONE_WAY = Workload(
    name="one_way",
    title="follows that are not returned, counted",
    gq="""
    query q() {
      match {
        $a follows $b
        not { $b follows $a }
      }
      return { count($a) as pairs }
    }
    """,
    sql="select count(*) from follows f where not exists (select 1 from follows g where g.src = f.dst and g.dst = f.src)",
    cypher="match (a:Person)-[:Follows]->(b:Person) where not exists { match (b)-[:Follows]->(a) } return count(*)",
    target=1.0,
)
FAR_FROM_HOME = Workload(
    name="far_from_home",
    title="persons who follow nobody in their own city, counted",
    gq="""
    query q() {
      match {
        $p livesIn $c
        not {
          $p follows $q
          $q livesIn $c
        }
      }
      return { count($p) as persons }
    }
    """,
    sql="""
    select count(*) from lives_in l
    where not exists (select 1 from follows f join lives_in m on m.src = f.dst where f.src = l.src and m.dst = l.dst)
    """,
    cypher="""
    match (p:Person)-[:LivesIn]->(c:City) where not exists { match (p)-[:Follows]->(q:Person)-[:LivesIn]->(c) }
    return count(*)
    """,
    target=1.0,
)
WITHOUT = (FOLLOWED_BY_NOBODY, NO_YOUNG_IDOLS, ONE_WAY, FAR_FROM_HOME)

RECENT = Workload(
    name="recent",
    title="follows by persons under 30 since after 2020, counted",
    gq="""
    query q($year: I32, $age: I32) {
      match {
        $a $w:follows $b
        $w.since > $year
        $a.age < $age
      }
      return { count($b) as follows }
    }
    """,
    sql="select count(*) from follows f join person a on a.id = f.src where f.since > $year and a.age < $age",
    cypher="match (a:Person)-[w:Follows]->(b:Person) where w.since > $year and a.age < $age return count(*)",
    target=1.0,
    params={"year": 2020, "age": 30},
)
RECENT_BY_CITY = Workload(
    name="recent_by_city",
    title="follows since after 2020 by the followed one's city, five",
    gq="""
    query q($year: I32) {
      match {
        $a $w:follows $b
        $w.since > $year
        $b livesIn $c
      }
      return { $c.name, count($a) as follows }
      order { follows desc }
      limit 5
    }
    """,
    sql="""
    select c.name, count(*) as follows from follows f join lives_in l on l.src = f.dst join city c on c.id = l.dst
    where f.since > $year group by c.name order by follows desc, c.name limit 5
    """,
    cypher="""
    match (a:Person)-[w:Follows]->(b:Person)-[:LivesIn]->(c:City) where w.since > $year
    return c.name as name, count(*) as follows order by follows desc, name limit 5
    """,
    target=1.0,
    params={"year": 2020},
)
SINCE_BY_GENDER = Workload(
    name="since_by_gender",
    title="first and mean year of follows by both genders",
    gq="""
    query q() {
      match { $a $w:follows $b }
      return { $a.gender as one, $b.gender as other, min($w.since) as first, avg($w.since) as mean }
      order { one, other }
    }
    """,
    sql="""
    select a.gender as one, b.gender as other, min(f.since), avg(f.since)
    from follows f join person a on a.id = f.src join person b on b.id = f.dst
    group by a.gender, b.gender order by one, other
    """,
    cypher="""
    match (a:Person)-[w:Follows]->(b:Person)
    return a.gender as one, b.gender as other, min(w.since), avg(w.since) order by one, other
    """,
    target=1.0,
)
EDGE_PROPERTIES = (RECENT, RECENT_BY_CITY, SINCE_BY_GENDER)

POINT = Workload(
    name="by_key",
    title="one person by key",
    gq="""
    query q($key: I64) {
      match { $p: Person { number: $key } }
      return { $p.name, $p.age, $p.gender }
    }
    """,
    sql="select p.name, p.age, p.gender from person p where p.number = $key",
    cypher="match (p:Person) where p.number = $key return p.name, p.age, p.gender",
    target=1.0,
    params={"key": 42},
    milliseconds=5.0,
)
ONE_HOP = Workload(
    name="one_hop_by_key",
    title="whom one person follows, by key",
    gq="""
    query q($key: I64) {
      match {
        $p: Person { number: $key }
        $p follows $q
      }
      return { $q.name, $q.age }
      order { $q.name }
    }
    """,
    sql="""
    select q.name, q.age from person p join follows f on f.src = p.id join person q on q.id = f.dst
    where p.number = $key order by q.name
    """,
    cypher="match (p:Person)-[:Follows]->(q:Person) where p.number = $key return q.name as name, q.age order by name",
    target=1.0,
    params={"key": 42},
    milliseconds=5.0,
)
BY_KEY = (POINT, ONE_HOP)
