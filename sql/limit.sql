--
-- A scan under a LIMIT looks ahead no farther than it will be read
--
CREATE TABLE limited (id int, pad text) PARTITION BY RANGE (id);
CREATE TABLE limited_0 PARTITION OF limited FOR VALUES FROM (0) TO (20);
CREATE TABLE limited_1 PARTITION OF limited FOR VALUES FROM (20) TO (20000);
INSERT INTO limited SELECT id, repeat('x', 1090) FROM generate_series(1, 19999) id;
VACUUM (ANALYZE) limited;

-- How far did the last query's scan of a relation get, and what did it read in vain?
CREATE FUNCTION ran(query text, rel regclass DEFAULT 'limited_1', OUT rows bigint, OUT read bigint, OUT in_vain text)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    PERFORM pg_buffercache_evict(bufferid) FROM pg_buffercache
      WHERE relfilenode = pg_relation_filenode(rel) AND pinning_backends = 0;
    rows := 0;
    FOR r IN EXECUTE query LOOP
        rows := rows + 1;
    END LOOP;
    SELECT consumed, CASE WHEN unconsumed <= 2 THEN 'at most 2' ELSE unconsumed::text END
      INTO read, in_vain FROM (SELECT sum(blocks - unconsumed) AS consumed, sum(unconsumed) AS unconsumed
                                 FROM pg_ringctl_last_scans() WHERE relid = rel) s;
END $$;
-- How far does a cursor's scan look ahead at most, on its next pages?  From 19 on little at a moment where it never waits.
CREATE FUNCTION farthest(c refcursor, rel regclass DEFAULT 'limited_1') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    far bigint := 0;
BEGIN
    FOR page IN 1..200 LOOP
        MOVE FORWARD 7 FROM c;
        far := greatest(far, (SELECT max(look_ahead) FROM pg_ringctl_rings WHERE relid = rel));
    END LOOP;
    RETURN far;
END $$;
\set VERBOSITY terse

-- ten rows are on two pages, and with an offset of 70 on twelve
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT 10');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT 10 OFFSET 70');
SELECT * FROM ran('SELECT id + 1 FROM (SELECT id FROM limited_1 OFFSET 0) s LIMIT (SELECT 2 * 5)');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT 10 FOR UPDATE');
SELECT * FROM ran('SELECT * FROM (SELECT * FROM limited_1 LIMIT 100) s LIMIT 10');
-- the first partition has nineteen of them
SELECT * FROM ran('SELECT * FROM limited LIMIT 29');
SELECT * FROM ran('SELECT * FROM limited LIMIT 10');
-- every time that it is scanned
SELECT rows FROM ran('SELECT i, l.id FROM generate_series(1, 5) i, LATERAL (SELECT id FROM limited_1 LIMIT 10 + i - i) l');
-- as many as somebody says: the next time that may be more
BEGIN;
DECLARE c CURSOR FOR SELECT n, l.id FROM (VALUES (1), (19000)) g(n), LATERAL (SELECT id FROM limited_1 LIMIT n) l;
MOVE 3000 IN c;
SELECT farthest('c') >= 8 AS far;
COMMIT;
CREATE SEQUENCE wanted INCREMENT 18999;
SET enable_material = off;
BEGIN;
DECLARE c CURSOR FOR SELECT n, l.id FROM (VALUES (1), (2)) g(n) LEFT JOIN (SELECT id FROM limited_1 LIMIT nextval('wanted')) l ON true;
MOVE 3000 IN c;
SELECT farthest('c') >= 8 AS far;
COMMIT;
RESET enable_material;
DROP SEQUENCE wanted;
-- nor are all that come before them there the next time
BEGIN;
DECLARE c CURSOR FOR SELECT n, l.i FROM (VALUES (1), (2)) g(n), LATERAL (
    SELECT i FROM generate_series(1, 9999) i WHERE n = 1 UNION ALL SELECT id FROM limited_1 LIMIT 10000) l;
MOVE 13000 IN c;
SELECT farthest('c') >= 8 AS far;
COMMIT;

-- nothing, or everything
SELECT rows FROM ran('SELECT * FROM limited_1 LIMIT 0');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT ALL');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT NULL');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT 9223372036854775807 OFFSET 9223372036854775807');
SELECT rows FROM ran('SELECT id FROM limited_1 ORDER BY id FETCH FIRST 10 ROWS WITH TIES');
-- where rows get lost nobody knows how many are wanted
SELECT rows FROM ran('SELECT * FROM limited_1 WHERE id % 2 = 0 LIMIT 10');
SELECT rows FROM ran('SELECT a.id FROM limited_1 a JOIN limited_0 b USING (id) LIMIT 10');
BEGIN;
UPDATE pg_class SET reltuples = 1000 * reltuples WHERE oid = 'limited_1'::regclass;
DECLARE c CURSOR FOR SELECT id FROM limited_1 LIMIT 10000 FOR UPDATE;
DECLARE s CURSOR FOR SELECT id FROM limited_1 LIMIT 10000 FOR UPDATE SKIP LOCKED;
MOVE 3000 IN c;
SELECT farthest('c') >= 8 AS far;
CLOSE c;
MOVE 3000 IN s;
SELECT farthest('s') >= 8 AS far;
ROLLBACK;

-- it looks ahead again where more is wanted: a quarter of the pages at most
SELECT rows, read, in_vain IN ('at most 2') OR in_vain::int <= read / 4 AS in_proportion
  FROM ran('SELECT * FROM limited_1 LIMIT 700');

-- not by itself where it only observes
SET pg_ringctl.mode = observe;
SELECT rows, read FROM ran('SELECT * FROM limited_1 LIMIT 10');
RESET pg_ringctl.mode;

-- forward and back
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM limited_1 LIMIT 30;
MOVE 20 IN c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD ALL IN c;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 1 FROM c;
COMMIT;

-- the planner is wrong: most of these rows are no more
DELETE FROM limited_1 WHERE id < 15000;
SELECT rows, read > 2000 AS far, in_vain FROM ran('SELECT * FROM limited_1 LIMIT 10');
SELECT * FROM ran('SELECT * FROM limited_1 LIMIT 1000000');
SELECT exact(), escapes_pinned + escapes_dirty + escapes_adopted AS escapes FROM stats('limited_1');

DROP FUNCTION ran, farthest;
DROP TABLE limited;
