-- dirty: the first scan after a load, which sets hint bits and so dirties
-- every page, whose WAL is not flushed when the ring comes round.
--
-- Claims: through our ring the hot table survives, nothing is left behind, and
-- WAL is flushed for that, once for many pages.  With dirty_pages = leave, in observe mode and
-- without us the server leaves the pages behind, and the hot table is lost.
-- A statement that changes or locks rows leaves its first dirty pages in shared_buffers, up to
-- 1/32 of it (64 pages): if it dirties no more, no WAL is flushed and no page is written.
-- If the ring's size is set, it leaves none.

-- Loaded, committed, never read; after a checkpoint a hint is worth a page of WAL.
CREATE TABLE loaded (LIKE big);
CREATE PROCEDURE load() LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE loaded;
    INSERT INTO loaded SELECT * FROM big;
    COMMIT;
    CHECKPOINT;
    PERFORM fresh();
END $$;

SELECT setting = 'on' AS hints_make_wal FROM pg_settings WHERE name = 'wal_log_hints';

-- ours
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT hot_survives(), cached('loaded') <= ring_buffers AS in_ring, blks_read = blocks AS all_read,
       escapes_pinned, escapes_dirty,
       wal_flushes < blks_read / 16 AS many_pages_a_flush, exact() FROM stats('loaded');
-- the second scan finds clean pages
SELECT fresh();
SELECT count(*), sum(id) FROM loaded;
SELECT hot_survives(), escapes_pinned, escapes_dirty, wal_flushes, exact() FROM stats('loaded');
-- Its ring begins with the size of the last one, but only if the buffers of that are still there.
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT ring_buffers > 64 AS large FROM stats('loaded');
SELECT fresh();
SELECT count(*), sum(id) FROM loaded;
SELECT ring_buffers_max <= 64 AS small FROM stats('loaded');
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT ring_buffers > 64 AS large FROM stats('loaded');
SELECT fresh();
COPY loaded TO '/dev/null';
SELECT kind, ring_buffers_max <= 64 AS small FROM pg_ringctl_stats WHERE relname = 'loaded';

-- After the first flush that it waited for, the ring has room for two batches, 256
-- pages, and more: one for the WAL writer to flush while another gathers; it takes
-- no sharing.
SET pg_ringctl.scan_sharing = off;
SET pg_ringctl.max_ring = '8MB';
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT cached('loaded') <= ring_buffers AS in_ring, escapes_pinned, escapes_dirty,
       ring_buffers > 256 OR wal_flushes = 0 AS has_room, exact() FROM stats('loaded');
RESET pg_ringctl.max_ring;
RESET pg_ringctl.scan_sharing;

-- of every size; a small one cannot leave all the flushing to the WAL writer
CREATE FUNCTION first_scan(scan_ring text) RETURNS TABLE (ring text, hot boolean, in_ring boolean,
    escapes_pinned bigint, escapes_dirty bigint, flushed boolean, exact boolean) LANGUAGE sql
BEGIN ATOMIC
    SELECT scan_ring, hot_survives(), cached('loaded') <= s.ring_buffers,
           s.escapes_pinned, s.escapes_dirty, s.wal_flushes > 0 OR s.ring_buffers > 16, exact()
      FROM stats('loaded') s;
END;
SET pg_ringctl.scan_ring = '64kB';
CALL load();
SELECT count(*) FROM loaded;
SELECT * FROM first_scan('64kB');
SET pg_ringctl.scan_ring = '128kB';
CALL load();
SELECT count(*) FROM loaded;
SELECT * FROM first_scan('128kB');
SET pg_ringctl.scan_ring = '256kB';
CALL load();
SELECT count(*) FROM loaded;
SELECT * FROM first_scan('256kB');
SET pg_ringctl.scan_ring = '2MB';
CALL load();
SELECT count(*) FROM loaded;
SELECT * FROM first_scan('2MB');
RESET pg_ringctl.scan_ring;

-- Few of them, one in sixteen: they are put off, and gather in a ring that is small,
-- until one flush, or the WAL writer's, serves all.
CALL load();
VACUUM (FREEZE) loaded;
CHECKPOINT;
SELECT fresh();
BEGIN;
DELETE FROM loaded WHERE id % 64 = 0;
SELECT hot_survives(), cached('loaded') - 64 <= ring_buffers AS in_ring, escapes_pinned, escapes_dirty,
       wal_flushes <= 10 AS few_flushes, exact() FROM stats('loaded');
ROLLBACK;
SET pg_ringctl.scan_ring = '2MB';
CHECKPOINT;
SELECT fresh();
BEGIN;
DELETE FROM loaded WHERE id % 64 = 0;
SELECT * FROM first_scan('2MB, few');
ROLLBACK;
RESET pg_ringctl.scan_ring;

-- Forty of them, dirtied by a statement that changes or locks rows: has it written any?
CREATE FUNCTION still_dirty() RETURNS bigint LANGUAGE sql
BEGIN ATOMIC
    SELECT count(*) FROM pg_buffercache
     WHERE isdirty AND relfilenode = pg_relation_filenode('loaded') AND relforknumber = 0;
END;
CREATE PROCEDURE change(command text, ring text DEFAULT '-1') LANGUAGE plpgsql AS $$
BEGIN
    CHECKPOINT;
    PERFORM fresh(), set_config('pg_ringctl.scan_ring', ring, false);
    EXECUTE command;
    RAISE NOTICE '%: dirty pages: %, WAL flushed: %, hot: %, exact: %', split_part(command, ' ', 1), still_dirty(),
        (SELECT wal_flushes > 0 FROM stats('loaded')), hot_survives(), exact();
    ROLLBACK;
END $$;
SELECT count(*) FROM loaded;     -- hint bits
CALL change('DELETE FROM loaded WHERE id % 512 = 0');
CALL change('DELETE FROM loaded WHERE id % 512 = 0', '128kB');
CALL change('MERGE INTO loaded USING small ON small.id * 512 = loaded.id WHEN MATCHED THEN DELETE');
CALL change('WITH l AS (SELECT FROM loaded WHERE id % 512 = 0 FOR UPDATE) SELECT count(*) FROM l');
-- ten pages of new versions, too
CALL change('UPDATE loaded SET v = 0 WHERE id % 512 = 0');
RESET pg_ringctl.scan_ring;
DROP PROCEDURE change;
DROP FUNCTION still_dirty;

-- pages that are pruned by the scan
CALL load();
DELETE FROM loaded WHERE id % 2 = 0;
CHECKPOINT;
SELECT fresh();
SELECT count(*), sum(id) FROM loaded;
SELECT * FROM first_scan('pruned');

-- an unlogged table's pages need no WAL
CREATE UNLOGGED TABLE unlogged (LIKE big);
INSERT INTO unlogged SELECT * FROM big;
SELECT fresh();
SELECT count(*), sum(id) FROM unlogged;
SELECT hot_survives(), cached('unlogged') <= ring_buffers AS in_ring, escapes_pinned, escapes_dirty,
       wal_flushes, exact() FROM stats('unlogged');
-- and so none is left by a statement that changes rows
SELECT fresh();
BEGIN;
DELETE FROM unlogged WHERE id % 64 = 0;
SELECT hot_survives(), cached('unlogged') <= ring_buffers AS in_ring, escapes_pinned, escapes_dirty,
       wal_flushes, exact() FROM stats('unlogged');
ROLLBACK;
DROP TABLE unlogged;

-- nor are pages that an earlier query has dirtied, and whose buffers the ring begins with
CREATE TABLE other AS SELECT * FROM big;
VACUUM (FREEZE) other;
CREATE TABLE few AS SELECT * FROM big LIMIT 960;
CHECKPOINT;
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
SELECT count(*) FROM few;
SELECT count(*) > 16 AS many_are_dirty FROM pg_buffercache
 WHERE isdirty AND relfilenode = pg_relation_filenode('few') AND relforknumber = 0;
DELETE FROM other WHERE id % 512 = 0;
SELECT cached('few') AS "left", escapes_pinned, escapes_dirty FROM stats('other');
RESET pg_ringctl.scan_threshold;
DROP TABLE other, few;

-- dirty_pages = leave
SET pg_ringctl.dirty_pages = leave;
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT hot_is_lost(), cached('loaded') > ring_buffers AS more_than_the_ring,
       escapes_dirty > 0.5 * blks_read AS escapes, wal_flushes, exact() FROM stats('loaded');
RESET pg_ringctl.dirty_pages;

-- observe
SET pg_ringctl.mode = observe;
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT hot_is_lost(), cached('loaded') > ring_buffers AS more_than_the_ring,
       escapes_dirty > 0.5 * blks_read AS escapes, wal_flushes, exact() FROM stats('loaded');

-- the server alone
SET pg_ringctl.mode = off;
CALL load();
SELECT count(*), sum(id) FROM loaded;
SELECT hot_is_lost(), count(*) AS counted FROM stats('loaded');
RESET pg_ringctl.mode;

DROP FUNCTION first_scan;
DROP PROCEDURE load;
DROP TABLE loaded;
