-- blocks: pg_ringctl_prewarm_blocks().
--
-- Claims: it reads the blocks of the list, and no others; in the order that a
-- model of each mode says, whatever the window; a block that waits is not
-- added again; through a ring it leaves no more than the ring, and the ring
-- stays closed although blocks come back.  A window of 200 makes the way 50
-- times shorter for who follows an index in random order.  Whatever is wrong
-- is refused with its SQLSTATE, before anything is read.

CREATE FUNCTION distance(blocks bigint[]) RETURNS bigint LANGUAGE sql
BEGIN ATOMIC
    SELECT coalesce(sum(step), 0)
      FROM (SELECT abs(b - lag(b) OVER (ORDER BY n)) FROM unnest(blocks) WITH ORDINALITY u (b, n)) s (step);
END;

-- In which order are they read?
CREATE FUNCTION model(list bigint[], win int, mode text) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    waiting bigint[] := '{}';
    result bigint[] := '{}';
    up boolean := true;
    place bigint := 0;
    next bigint;
    i int := 1;
BEGIN
    LOOP
        IF mode <> 'sorted' OR waiting = '{}' THEN
            WHILE i <= cardinality(list) AND cardinality(waiting) < win LOOP
                IF list[i] <> ALL (waiting) THEN
                    waiting := waiting || list[i];
                END IF;
                i := i + 1;
            END LOOP;
        END IF;
        IF waiting = '{}' THEN
            RETURN result;
        END IF;

        next := CASE WHEN mode = 'none' THEN waiting[1]
                     WHEN mode = 'sorted' THEN (SELECT min(b) FROM unnest(waiting) b)
                     WHEN up THEN (SELECT min(b) FROM unnest(waiting) b WHERE b >= place)
                     ELSE (SELECT max(b) FROM unnest(waiting) b WHERE b <= place) END;
        IF next IS NULL THEN
            up := NOT up;
        ELSE
            result := result || next;
            waiting := array_remove(waiting, next);
            place := next;
        END IF;
    END LOOP;
END $$;

--
-- Orders
--

-- By hand: three blocks wait.  Going up, 3, 4 and 12 are still ahead when they
-- come into the window, then 3 and 7 are not: they are read on the way down.
SELECT mode, model('{5, 9, 2, 3, 4, 12, 3, 7}', 3, mode) AS reads, p.blocks, p.seek_distance
  FROM unnest('{none, zigzag, sorted}'::text[]) mode,
       LATERAL pg_ringctl_prewarm_blocks('small', '{5, 9, 2, 3, 4, 12, 3, 7}', 0, 3, mode) p;

-- Random lists: of few blocks, so that many come twice, and of many
SELECT setseed(0.42);
CREATE TABLE lists AS
SELECT id, rel, array_agg(floor(random() * range)::bigint) AS list
  FROM (SELECT row_number() OVER () AS id, rel, range, n
          FROM (VALUES ('small', 3), ('small', 20), ('big', 5120)) r (rel, range),
               unnest('{1, 2, 9, 40, 100}'::int[]) n) s, generate_series(1, n)
 GROUP BY id, rel;
SELECT mode, win, count(*) AS lists,
       bool_and(p.blocks = cardinality(m)) AS blocks, bool_and(p.seek_distance = distance(m)) AS distance,
       bool_and(p.blocks = p.blks_hit + p.blks_read AND p.elapsed_time >= 0) AS adds_up
  FROM unnest('{none, zigzag, sorted}'::text[]) mode, unnest('{1, 2, 3, 10, 64, 1048576}'::int[]) win,
       lists, model(list, win, mode) m, LATERAL pg_ringctl_prewarm_blocks(rel, list, 0, win, mode) p
 GROUP BY mode, win ORDER BY mode, win;

-- A window of one changes nothing; one that holds all sorts.
SELECT bool_and(p.blocks = cardinality(list) AND p.seek_distance = distance(list)) AS as_given,
       bool_and(q.seek_distance = (SELECT max(b) - min(b) FROM unnest(list) b)
                AND q.blocks = (SELECT count(DISTINCT b) FROM unnest(list) b)) AS once_up
  FROM lists, unnest('{none, zigzag, sorted}'::text[]) mode, unnest('{zigzag, sorted}'::text[]) sorting,
       LATERAL pg_ringctl_prewarm_blocks(rel, list, 0, 1, mode) p,
       LATERAL pg_ringctl_prewarm_blocks(rel, list, 0, 100, sorting) q;

--
-- Duplicates: one that waits is not added again, one that was read is.
--
SELECT list, win, mode, p.blocks, p.seek_distance
  FROM (VALUES ('{7, 7, 7, 7}'::bigint[]), ('{3, 1, 3}'), ('{0, 19, 0, 19, 0, 19}')) l (list),
       unnest('{1, 2, 200}'::int[]) win, unnest('{none, zigzag, sorted}'::text[]) mode,
       LATERAL pg_ringctl_prewarm_blocks('small', list, 0, win, mode) p
 ORDER BY list, win, mode;

--
-- What is read: these blocks, and no others
--
SELECT fresh();
SELECT blocks, blks_hit, blks_read, seek_distance
  FROM pg_ringctl_prewarm_blocks('big', '{5119, 17, 0, 17, 4000, 3}');
SELECT array_agg(relblocknumber ORDER BY relblocknumber) FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('big') AND relforknumber = 0;
SELECT blocks, blks_hit, blks_read FROM pg_ringctl_prewarm_blocks('big', '{5119, 17, 1}');

-- Nothing, in any way; other arrays
SELECT p.blocks, p.blks_hit, p.blks_read, p.seek_distance, p.elapsed_time >= 0 AS elapsed
  FROM unnest('{none, zigzag, sorted}'::text[]) mode, unnest('{0, -1, 64}'::int[]) ring_kb,
       LATERAL pg_ringctl_prewarm_blocks('small', '{}', ring_kb, 200, mode) p
 GROUP BY 1, 2, 3, 4, 5;
SELECT blocks, seek_distance FROM pg_ringctl_prewarm_blocks('small', '{{1, 2, 3}, {9, 8, 7}}', reorder => 'none');
SELECT blocks, seek_distance FROM pg_ringctl_prewarm_blocks(reorder => 'none', blocks => '[-5:-3]={4,1,9}', relation => 'small');
-- everything that has storage, a temporary table without a ring
CREATE INDEX small_id ON small (id);
CREATE SEQUENCE numbers;
CREATE TEMP TABLE temporary AS SELECT * FROM small;
SELECT rel, p.blocks, p.seek_distance
  FROM (VALUES ('small_id', '{1, 0}'::bigint[]), ('numbers', '{0}'), ('pg_class', '{2, 0, 1}'), ('temporary', '{3, 9, 3}')) r (rel, list),
       LATERAL pg_ringctl_prewarm_blocks(rel::regclass, list, 0) p;

--
-- Through a ring
--
CREATE FUNCTION through(list bigint[], ring_kb int, win int, mode text)
RETURNS TABLE (adds_up boolean, in_ring boolean, hot boolean, closed boolean, exact boolean)
LANGUAGE plpgsql AS $$
DECLARE
    p record;
    s record;
BEGIN
    PERFORM fresh();
    SELECT * INTO p FROM pg_ringctl_prewarm_blocks('big', list, ring_kb, win, mode);
    SELECT * INTO s FROM stats('big', 'prewarm');
    RETURN QUERY SELECT p.blocks = s.blocks AND p.blks_hit = s.blks_hit AND p.blks_read = s.blks_read
                        AND p.blks_read >= (SELECT count(DISTINCT b) FROM unnest(list) b),
                        cached('big') <= s.ring_buffers, hot_survives(),
                        s.escapes_pinned + s.escapes_dirty + s.escapes_adopted = 0, exact();
END $$;
-- in random order, with blocks that come back soon, back and forth, at both ends
CREATE TABLE walks AS
SELECT 'random' AS walk, array_agg(i * 1234577::bigint % 5120) AS list FROM generate_series(1, 6000) i
UNION ALL SELECT 'soon', array_agg((i * 7919::bigint) % 40 + i / 10) FROM generate_series(1, 6000) i
UNION ALL SELECT 'wave', array_agg((50 + 40 * sin(i / 7.0))::bigint) FROM generate_series(1, 6000) i
UNION ALL SELECT 'ends', array_agg(CASE i % 2 WHEN 0 THEN i / 2 ELSE 5119 - i / 2 END::bigint) FROM generate_series(1, 6000) i;
SELECT walk, ring_kb, mode, win, p.adds_up, p.in_ring, p.hot, p.closed, p.exact
  FROM walks, unnest('{64, 256, -1}'::int[]) ring_kb,
       (VALUES ('none', 200), ('zigzag', 1), ('zigzag', 200)) m (mode, win),
       LATERAL through(list, ring_kb, win, mode) p
 ORDER BY walk, ring_kb, mode, win;

-- of the size that the parameter takes, or in kB; it may be capped
SELECT ring, p.blocks FROM unnest('{64, 64kB, 1MB, 0, -1}'::text[]) ring, LATERAL pg_ringctl_prewarm_blocks('big', '{1, 2}', ring) p;
SELECT fresh();
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', ARRAY(SELECT generate_series(0::bigint, 999)), '4MB');
SELECT ring_buffers, exact() FROM stats('big', 'prewarm');
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', '{1, 2}', 4096);

--
-- What does not fit is left out, unless it is wanted all the same, or there is a ring
--
CREATE FUNCTION fits(list bigint[], ring text, fit text) RETURNS TABLE (blocks bigint, adds_up boolean, ring boolean, reuses boolean, escapes bigint)
LANGUAGE sql BEGIN ATOMIC
    SELECT p.blocks, p.blocks = p.blks_hit + p.blks_read, p.ring_buffers > 0, p.reuses > 0, p.escapes
      FROM pg_ringctl_prewarm_blocks('big', list, ring, fit => fit) p;
END;
SELECT array_agg(i) AS list FROM generate_series(0::bigint, 2999) i \gset
SELECT fresh();
SELECT * FROM fits(:'list', '0', 'stop');
SELECT cached('big') > 900 AS many_are_there;
SELECT * FROM fits(:'list', '0', 'warn');
SELECT * FROM fits(:'list', '0', 'ignore');
SELECT * FROM fits(:'list', '64kB', 'stop');
SELECT * FROM fits(:'list', '-1', 'warn');
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', :'list');
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', (:'list'::bigint[])[1:2049]);
-- as many as fit; each is listed twice, and waits when it comes again
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', ARRAY(SELECT i / 2 FROM generate_series(0::bigint, 4095) i));
SELECT blocks FROM pg_ringctl_prewarm_blocks('big', ARRAY(SELECT i / 2 FROM generate_series(0::bigint, 4097) i));
SELECT attempt('SELECT pg_ringctl_prewarm_blocks(''small'', ''{1}'', fit => ''all'')') AS wrong, attempt('SELECT pg_ringctl_prewarm_blocks(''small'', ''{1}'', fit => NULL)') AS "null";
DROP FUNCTION fits;

--
-- Four indexes over 5,000 rows, each in an order of its own; one row a page,
-- and ten
--
CREATE FUNCTION passes(rel regclass) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off AS $$
DECLARE
    result bigint[] := '{}';
    pass bigint[];
BEGIN
    FOR i IN 1 .. 4 LOOP
        EXECUTE format('SELECT array_agg((t::text::point)[0]::bigint) FROM (SELECT ctid FROM %s ORDER BY k%s) r (t)', rel, i)
           INTO pass;
        result := result || pass;
    END LOOP;
    RETURN result;
END $$;
CREATE TABLE wide (k1 uuid, k2 uuid, k3 uuid, k4 uuid, filler text STORAGE plain);
CREATE TABLE narrow (LIKE wide INCLUDING STORAGE);
INSERT INTO wide SELECT md5('1 ' || i)::uuid, md5('2 ' || i)::uuid, md5('3 ' || i)::uuid, md5('4 ' || i)::uuid, repeat('x', 4200)
  FROM generate_series(1, 5000) i;
INSERT INTO narrow SELECT k1, k2, k3, k4, repeat('x', 700) FROM wide;
CREATE INDEX ON wide (k1);
CREATE INDEX ON wide (k2);
CREATE INDEX ON wide (k3);
CREATE INDEX ON wide (k4);
CREATE INDEX ON narrow (k1);
CREATE INDEX ON narrow (k2);
CREATE INDEX ON narrow (k3);
CREATE INDEX ON narrow (k4);

SELECT rel, blocks(rel), mode, win, p.blocks AS asked, p.seek_distance,
       n.seek_distance / p.seek_distance AS times_less, n.seek_distance >= 50 * p.seek_distance AS fifty
  FROM unnest('{wide, narrow}'::regclass[]) rel, passes(rel) list,
       (VALUES ('none', 200), ('sorted', 200), ('zigzag', 20), ('zigzag', 100), ('zigzag', 200), ('zigzag', 1000)) m (mode, win),
       LATERAL pg_ringctl_prewarm_blocks(rel, list, 64, win, mode) p,
       LATERAL pg_ringctl_prewarm_blocks(rel, list, 64, 200, 'none') n
 ORDER BY rel, mode, win;

--
-- What bad input gets
--
CREATE VIEW a_view AS SELECT * FROM small;
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE TABLE empty (id int);
SELECT pg_ringctl_prewarm_blocks(NULL, '{1}') IS NULL AS null_relation, pg_ringctl_prewarm_blocks(NULL, NULL, NULL) IS NULL;
SELECT arguments, attempt(format('SELECT * FROM pg_ringctl_prewarm_blocks(%s)', arguments)) AS outcome
  FROM (VALUES
        ('''small'', NULL'), ('''small'', ''{1}'', NULL'), ('''small'', ''{1}'', 0, NULL'), ('''small'', ''{1}'', 0, 200, NULL'),
        ('''small'', ''{1, NULL}'''), ('''small'', ''{NULL}'''),
        -- the blocks
        ('''small'', ''{1, 20}'''), ('''small'', ''{-1}'''), ('''small'', ''{4294967295}'''), ('''small'', ''{4294967296}'''),
        ('''small'', ''{9223372036854775807, -9223372036854775808}'''), ('''empty'', ''{0}'''), ('''empty'', ''{}'''),
        -- the ring
        ('''small'', ''{1}'', -2'), ('''small'', ''{1}'', 63'), ('''small'', ''{1}'', 16777217'), ('''small'', ''{1}'', ''63kB'''),
        ('''small'', ''{1}'', ''big'''), ('''small'', ''{1}'', ''4 megabytes'''), ('''small'', ''{1}'', NULL::integer'),
        -- the window
        ('''small'', ''{1}'', 0, 0'), ('''small'', ''{1}'', 0, -1'), ('''small'', ''{1}'', 0, 1048577'), ('''small'', ''{1}'', 0, 1048576'),
        -- the order
        ('''small'', ''{1}'', 0, 200, ''x'''), ('''small'', ''{1}'', 0, 200, ''ZIGZAG'''), ('''small'', ''{1}'', 0, 200, '''''),
        -- the relation
        ('''a_view'', ''{}'''), ('''parted'', ''{}'''), ('''small_id'', ''{1}'', 64'), ('4294967295, ''{}'''),
        ('''temporary'', ''{0}'', 64'), ('''temporary'', ''{0}'', -1')) v (arguments);
\set VERBOSITY terse
SELECT * FROM pg_ringctl_prewarm_blocks('small', '{19, 20, 21}');
SELECT * FROM pg_ringctl_prewarm_blocks('small', '{19}', 0, 200, 'random');
\set VERBOSITY default

-- Children by inheritance are left out.
CREATE TABLE mother (LIKE small);
INSERT INTO mother SELECT * FROM small;
CREATE TABLE daughter () INHERITS (mother);
SELECT blocks FROM pg_ringctl_prewarm_blocks('mother', '{0}');
DROP TABLE mother CASCADE;

-- A bad block at the end: nothing was read, nothing counted.
SELECT fresh();
SELECT * FROM pg_ringctl_prewarm_blocks('big', '{1, 2, 3, 5120}', 64);
SELECT cached('big'), (SELECT count(*) FROM pg_ringctl_stats) AS counted;

-- No privilege, or that of reading it; an index by its table
CREATE ROLE regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT rel, attempt(format('SELECT * FROM pg_ringctl_prewarm_blocks(%L, ''{0}'')', rel)) FROM unnest('{small, small_id}'::text[]) rel;
RESET ROLE;
GRANT SELECT ON small TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT rel, attempt(format('SELECT * FROM pg_ringctl_prewarm_blocks(%L, ''{0}'')', rel)) FROM unnest('{small, small_id}'::text[]) rel;
RESET ROLE;
REVOKE ALL ON small FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

-- Nothing was left pinned or locked.
SELECT count(*) AS pinned FROM pg_buffercache WHERE pinning_backends > 0;
SELECT count(*) AS locked FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
 WHERE c.oid >= 16384 AND c.relname NOT LIKE 'pg\_%' AND l.pid = pg_backend_pid();

DROP FUNCTION distance, model, through, passes;
DROP VIEW a_view;
DROP INDEX small_id;
DROP SEQUENCE numbers;
DROP TABLE lists, walks, wide, narrow, parted, empty, temporary;
