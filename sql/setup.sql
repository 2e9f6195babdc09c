-- setup: what the other files stand on.
--
-- The server has 2,048 shared buffers (sql/regress.conf).  "hot" takes about
-- half of them and stands for everybody else's pages; "big" is two and a half
-- times as large as all of them.  How many pages of each are in
-- shared_buffers, pg_buffercache says, which knows nothing of us.
--
-- Claims: the extension can be created, the helpers work, and the tables are
-- as large as the other files need them.

CREATE EXTENSION pg_buffercache;
CREATE EXTENSION pg_ringctl;

-- Four rows a page.
CREATE TABLE big (id int, v int, filler text);
INSERT INTO big SELECT i, i % 100, repeat('x', 1800) FROM generate_series(1, 4 * 5120) i;
CREATE TABLE hot (LIKE big);
INSERT INTO hot SELECT * FROM big WHERE id <= 4 * 1000;
CREATE TABLE small (LIKE big);
INSERT INTO small SELECT * FROM big WHERE id <= 4 * 20;
VACUUM (ANALYZE, FREEZE) big, hot, small;

--
-- Helpers: judges
--

-- How many blocks a relation has.
CREATE FUNCTION blocks(rel regclass) RETURNS bigint LANGUAGE sql
RETURN pg_relation_size(rel) / current_setting('block_size')::int;

-- How many of them are in shared_buffers.
CREATE FUNCTION cached(rel regclass) RETURNS bigint LANGUAGE sql
BEGIN ATOMIC
    SELECT count(*) FROM pg_buffercache b
     WHERE b.relfilenode = pg_relation_filenode(rel) AND b.relforknumber = 0
       AND b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database());
END;

-- Has the hot table survived?
CREATE FUNCTION hot_survives() RETURNS boolean LANGUAGE sql
RETURN cached('hot') >= 0.99 * blocks('hot');

-- Are most of its pages gone?
CREATE FUNCTION hot_is_lost() RETURNS boolean LANGUAGE sql
RETURN cached('hot') < 0.5 * blocks('hot');

-- What was counted for a relation.
CREATE FUNCTION stats(rel regclass, kind text DEFAULT 'seqscan')
RETURNS SETOF pg_ringctl_stats LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM pg_ringctl_stats s WHERE s.relid = rel AND s.kind = stats.kind
       AND s.datname = current_database();
END;

-- Do the counters add up, in every row?
CREATE FUNCTION exact() RETURNS boolean LANGUAGE sql
BEGIN ATOMIC
    SELECT bool_and(blks_read = fills + reuses + escapes_pinned + escapes_adopted
                    AND blocks = blks_hit + blks_read
                    AND least(scans, workers_launched, blks_hit, blks_read, fills,
                              reuses, escapes_pinned, escapes_dirty, escapes_adopted,
                              slots_lost, ring_buffers, wal_flushes) >= 0
                    AND blks_unconsumed BETWEEN 0 AND blocks AND buffers_released >= 0
                    AND (scan_sharing_waits = 0) = (scan_sharing_wait_time = 0)
                    AND total_time >= 0 AND ring_buffers_max >= ring_buffers
                    AND last_scan >= stats_reset)
      FROM pg_ringctl_stats;
END;

--
-- Helpers: actors
--

-- Start from the same: of all tables only "hot" is in shared_buffers, and used
-- (it is read without a sequential scan); nothing is counted.
CREATE FUNCTION fresh() RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode >= 16384;
    FOR i IN 1 .. 3 LOOP
        PERFORM FROM hot WHERE ctid = ANY
            (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series(0, blocks('hot') - 1) b));
    END LOOP;
    PERFORM pg_ringctl_stats_reset();
END $$;

-- The number of a query's rows, and a digest of them in their order.
CREATE FUNCTION digest(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(t::text, chr(10))), '''')
                      FROM (%s) t', query) INTO result;
    RETURN result;
END $$;

-- The number of pages that a query reads, as EXPLAIN counts them.
CREATE FUNCTION read_by_explain(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT JSON) ' || query INTO plan;
    RETURN plan->0->'Plan'->>'Shared Read Blocks';
END $$;

CREATE FUNCTION set_mode(mode text) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    SELECT set_config('pg_ringctl.mode', mode, true);
END;

-- Settings ('name=value'), local to the transaction.
CREATE FUNCTION apply(settings text[]) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    SELECT set_config(split_part(s, '=', 1), split_part(s, '=', 2), true) FROM unnest(settings) s;
END;

-- Run a query as the server would, and then as the session's settings and
-- these ('name=value', local to the transaction) say, and judge:
--   same     the same rows in the same order, at least one
--   hot      the hot table survives
--   in_ring  of rel there is no more in shared_buffers than so many rings
--   closed   nothing was left behind because it was pinned or dirty
--   exact    the counters add up
CREATE FUNCTION judge(query text, rel regclass DEFAULT 'big', rings int DEFAULT 1,
                      VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (same boolean, hot boolean, in_ring boolean, closed boolean, exact boolean)
LANGUAGE plpgsql AS $$
DECLARE
    mode text := current_setting('pg_ringctl.mode');
    stock text;
BEGIN
    PERFORM apply(settings);

    PERFORM set_mode('off');
    stock := digest(query);
    PERFORM set_mode(mode);
    PERFORM fresh();
    same := (stock NOT LIKE '0 %' AND stock = digest(query));

    hot := hot_survives();
    SELECT cached(rel) <= rings * max(ring_buffers_max) INTO in_ring FROM stats(rel);
    SELECT sum(escapes_pinned + escapes_dirty) = 0 INTO closed FROM pg_ringctl_stats;
    exact := exact();
    RETURN NEXT;
END $$;

-- Run a command; if it fails, how, and without OIDs.
CREATE FUNCTION attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
    hint text;
BEGIN
    EXECUTE command;
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || regexp_replace(SQLERRM, 'OID \d+', 'OID N'),
                     nullif(detail, ''), nullif(hint, ''));
END $$;

--
-- The helpers themselves
--

SELECT current_setting('pg_ringctl.mode') AS mode,
       current_setting('shared_buffers') AS shared_buffers;
SELECT blocks('big') > 2 * 2048 AS big_is_big,
       blocks('hot') BETWEEN 0.4 * 2048 AND 0.6 * 2048 AS hot_is_half,
       blocks('small') < 2048 / 8 AS small_is_small;
SELECT fresh();
SELECT cached('hot') = blocks('hot') AS hot_is_there, cached('big') AS big_cached,
       hot_survives(), hot_is_lost(), exact() IS NULL AS nothing_counted;

-- A scan without a ring is what the judges must condemn; it is not counted.
SELECT same, hot, in_ring, closed, exact
  FROM judge('SELECT id FROM big', 'big', 1, 'pg_ringctl.scan_ring=0');
SELECT attempt('SELECT 1'), attempt('SELECT 1/0');
