"""Nine common questions about a social network."""

from __future__ import annotations

from bench.workloads import Workload

INTEREST, CITY, COUNTRY = "interest-0007", "city-1495", "United States"

MOST_FOLLOWED = Workload(
    name="most_followed",
    title="the three most followed persons",
    gq="""
    query q() {
      match { $f follows $p }
      return { $p.number, $p.name, count($f) as followers }
      order { followers desc }
      limit 3
    }
    """,
    sql="""
    with best as (select dst, count(*) as followers from follows group by dst order by followers desc, dst limit 3)
    select p.number, p.name, best.followers from best join person p on p.id = best.dst order by best.followers desc, p.number
    """,
    cypher="""
    match (f:Person)-[:Follows]->(p:Person)
    return p.number as number, p.name as name, count(*) as followers order by followers desc, number limit 3
    """,
    target=0.2,
)
CITY_OF_MOST_FOLLOWED = Workload(
    name="city_of_most_followed",
    title="the city of the most followed person",
    gq="""
    query q() {
      match {
        $f follows $p
        $p livesIn $c
      }
      return { $p.number, $c.name, count($f) as followers }
      order { followers desc }
      limit 1
    }
    """,
    sql="""
    with best as (select dst, count(*) as followers from follows group by dst order by followers desc, dst limit 1)
    select p.number, c.name, best.followers
    from best join person p on p.id = best.dst join lives_in l on l.src = p.id join city c on c.id = l.dst
    """,
    cypher="""
    match (f:Person)-[:Follows]->(p:Person)
    with p, count(*) as followers order by followers desc, p.number limit 1
    match (p)-[:LivesIn]->(c:City)
    return p.number, c.name, followers
    """,
    target=0.8,
)
AGE_BY_CITY = Workload(
    name="age_by_city",
    title="average age by city in a country, the five lowest",
    gq="""
    query q($country: String) {
      match {
        $k: Country { name: $country }
        $s stateIn $k
        $c cityIn $s
        $p livesIn $c
      }
      return { $c.name, avg($p.age) as age }
      order { age }
      limit 5
    }
    """,
    sql="""
    select c.name, avg(p.age) as age
    from country k join state_in y on y.dst = k.id join city_in x on x.dst = y.src join city c on c.id = x.src
    join lives_in l on l.dst = c.id join person p on p.id = l.src
    where k.name = $country group by c.name order by age, c.name limit 5
    """,
    cypher="""
    match (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
    where k.name = $country
    return c.name as name, avg(p.age) as age order by age, name limit 5
    """,
    target=0.8,
    params={"country": COUNTRY},
)
PERSONS_BY_COUNTRY = Workload(
    name="persons_by_country",
    title="persons aged 30 to 40 per country, the three largest",
    gq="""
    query q($low: I32, $high: I32) {
      match {
        $p: Person
        $p.age >= $low
        $p.age <= $high
        $p livesIn $c
        $c cityIn $s
        $s stateIn $k
      }
      return { $k.name, count($p) as persons }
      order { persons desc }
      limit 3
    }
    """,
    sql="""
    select k.name, count(*) as persons
    from person p join lives_in l on l.src = p.id join city_in x on x.src = l.dst join state_in y on y.src = x.dst
    join country k on k.id = y.dst
    where p.age >= $low and p.age <= $high group by k.name order by persons desc, k.name limit 3
    """,
    cypher="""
    match (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
    where p.age >= $low and p.age <= $high
    return k.name as name, count(*) as persons order by persons desc, name limit 3
    """,
    target=0.8,
    params={"low": 30, "high": 40},
)
MEN_IN_CITY = Workload(
    name="men_in_city",
    title="men with an interest who live in a city, counted",
    gq="""
    query q($interest: String, $city: String) {
      match {
        $p: Person { gender: "male" }
        $i: Interest { name: $interest }
        $c: City { name: $city }
        $p hasInterest $i
        $p livesIn $c
      }
      return { count($p) as persons }
    }
    """,
    sql="""
    select count(*)
    from person p join has_interest h on h.src = p.id join interest i on i.id = h.dst
    join lives_in l on l.src = p.id join city c on c.id = l.dst
    where p.gender = 'male' and i.name = $interest and c.name = $city
    """,
    cypher="""
    match (i:Interest)<-[:HasInterest]-(p:Person)-[:LivesIn]->(c:City)
    where p.gender = 'male' and i.name = $interest and c.name = $city
    return count(*)
    """,
    target=0.8,
    params={"interest": INTEREST, "city": CITY},
)
CITIES_OF_WOMEN = Workload(
    name="cities_of_women",
    title="cities with the most women who share an interest, five",
    gq="""
    query q($interest: String) {
      match {
        $p: Person { gender: "female" }
        $i: Interest { name: $interest }
        $p hasInterest $i
        $p livesIn $c
      }
      return { $c.name, count($p) as persons }
      order { persons desc }
      limit 5
    }
    """,
    sql="""
    select c.name, count(*) as persons
    from person p join has_interest h on h.src = p.id join interest i on i.id = h.dst
    join lives_in l on l.src = p.id join city c on c.id = l.dst
    where p.gender = 'female' and i.name = $interest group by c.name order by persons desc, c.name limit 5
    """,
    cypher="""
    match (i:Interest)<-[:HasInterest]-(p:Person)-[:LivesIn]->(c:City)
    where p.gender = 'female' and i.name = $interest
    return c.name as name, count(*) as persons order by persons desc, name limit 5
    """,
    target=0.8,
    params={"interest": INTEREST},
)
STATE_OF_FANS = Workload(
    name="state_of_fans",
    title="the state with most fans of an interest aged 23 to 30",
    gq="""
    query q($interest: String, $low: I32, $high: I32) {
      match {
        $i: Interest { name: $interest }
        $p hasInterest $i
        $p.age >= $low
        $p.age <= $high
        $p livesIn $c
        $c cityIn $s
        $s stateIn $k
      }
      return { $s.name, $k.name, count($p) as persons }
      order { persons desc }
      limit 1
    }
    """,
    sql="""
    select s.name as state, k.name as country, count(*) as persons
    from person p join has_interest h on h.src = p.id join interest i on i.id = h.dst
    join lives_in l on l.src = p.id join city_in x on x.src = l.dst join state s on s.id = x.dst
    join state_in y on y.src = s.id join country k on k.id = y.dst
    where i.name = $interest and p.age >= $low and p.age <= $high
    group by s.name, k.name order by persons desc, s.name limit 1
    """,
    cypher="""
    match (i:Interest)<-[:HasInterest]-(p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
    where i.name = $interest and p.age >= $low and p.age <= $high
    return s.name as name, k.name as country, count(*) as persons order by persons desc, name limit 1
    """,
    target=0.8,
    params={"interest": INTEREST, "low": 23, "high": 30},
)
TWO_HOPS = Workload(
    name="two_hops",
    title="paths of two hops, counted",
    gq="""
    query q() {
      match {
        $a follows $b
        $b follows $c
      }
      return { count($a) as paths }
    }
    """,
    sql="select count(*) from follows f join follows g on g.src = f.dst",
    cypher="match (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) return count(*)",
    target=0.2,
)
TWO_HOPS_FILTERED = Workload(
    name="two_hops_filtered",
    title="paths of two hops, the middle under 50, the end over 25",
    gq="""
    query q($middle: I32, $last: I32) {
      match {
        $a follows $b
        $b follows $c
        $b.age < $middle
        $c.age > $last
      }
      return { count($a) as paths }
    }
    """,
    sql="""
    select count(*)
    from follows f join person b on b.id = f.dst join follows g on g.src = b.id join person c on c.id = g.dst
    where b.age < $middle and c.age > $last
    """,
    cypher="""
    match (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
    where b.age < $middle and c.age > $last
    return count(*)
    """,
    target=0.2,
    params={"middle": 50, "last": 25},
)
ALL = (
    MOST_FOLLOWED,
    CITY_OF_MOST_FOLLOWED,
    AGE_BY_CITY,
    PERSONS_BY_COUNTRY,
    MEN_IN_CITY,
    CITIES_OF_WOMEN,
    STATE_OF_FANS,
    TWO_HOPS,
    TWO_HOPS_FILTERED,
)
