-- dev/reference.sql - prints docs/reference.md from the catalog of a database that has the extension.
--
--	psql -X -q -f dev/reference.sql app > docs/reference.md
--
-- What it says of parameters, functions, views and columns is what their own comments say. Arguments of functions, and
-- columns of functions without a view, cannot have comments, so they are described here. The script fails if such a
-- description is missing, or describes nothing that exists; t/025_reference.pl checks that the page is the current one.
\set ECHO none
\pset format unaligned
\pset tuples_only on
\pset footer off
SET client_min_messages = error;
LOAD 'pg_ringctl';
SELECT set_config('search_path', (SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_ringctl'), false) \g /dev/null

-- What the extension has.
CREATE TEMP VIEW members AS
    SELECT classid, objid FROM pg_depend
     WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_ringctl');
-- As a sentence in a cell of a table.
CREATE FUNCTION pg_temp.sentence(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(CASE WHEN $1 ~ '^[A-Z]' OR $1 ~ '^(pg_|blks_|blocks_)' THEN $1 ELSE upper(left($1, 1)) || substr($1, 2) END, '|', '\|')
           || CASE WHEN $1 ~ '[.?]$' THEN '' ELSE '.' END
$$;
CREATE FUNCTION pg_temp.who(acl aclitem[]) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN acl IS NULL OR EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = 0) THEN 'everybody'
                WHEN EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = 'pg_read_all_stats'::regrole) THEN 'pg_read_all_stats'
                ELSE 'superuser, who may grant it' END
$$;

-- What arguments and results of functions are; a result that has no line here is the column of that name of the view
-- that has the function's name, or of pg_ringctl_stats.
CREATE TEMP TABLE descriptions (function text, name text, is_result boolean, description text);
INSERT INTO descriptions VALUES
    ('pg_ringctl_drop_policy', 'relation', false, 'relation whose own policy is dropped; the user must own it'),
    ('pg_ringctl_last_scans', 'plan_node_id', true, 'number of the scan in its plan; null: a utility command'),
    ('pg_ringctl_last_scans', 'relid', true, 'OID of the relation'),
    ('pg_ringctl_last_scans', 'worker', true, 'number of the parallel worker; null: the session itself'),
    ('pg_ringctl_last_scans', 'scans', true, 'number of scans; a rescan counts as another scan, except of an index scan; 0 if another process counts them'),
    ('pg_ringctl_last_scans', 'ring_kb', true, 'size of the ring in kB'),
    ('pg_ringctl_last_scans', 'ring_buffers', true, 'size of the ring in buffers'),
    ('pg_ringctl_last_scans', 'blks_read', true, 'number of these blocks (column blocks) that were read: fills + reuses + escapes_pinned + escapes_adopted'),
    ('pg_ringctl_last_scans', 'fills', true, 'reads into a slot of the ring that was empty, or whose page was gone; for an index scan without a ring, all its reads'),
    ('pg_ringctl_last_scans', 'source', true, 'where the size came from, as in pg_ringctl_rings'),
    ('pg_ringctl_last_scans', 'elapsed_time', true, 'time from when the scan got its ring in this process, or began to read ahead, until it had asked for all blocks or ended, without pauses of its query, in milliseconds'),
    ('pg_ringctl_map', 'width', false, 'number of glyphs in a line, from 1 to 1000'),
    ('pg_ringctl_map_relation', 'relation', false, 'relation whose pages stand out; a partitioned one stands for its partitions'),
    ('pg_ringctl_map_relation', 'width', false, 'number of glyphs in a line, from 1 to 1000'),
    ('pg_ringctl_parse_policy', 'label', false, 'text of the security label'),
    ('pg_ringctl_parse_policy', 'scan_ring', true, 'value of pg_ringctl.scan_ring; null if the policy does not set it'),
    ('pg_ringctl_parse_policy', 'scan_threshold', true, 'value of pg_ringctl.scan_threshold; null if the policy does not set it'),
    ('pg_ringctl_parse_policy', 'dirty_pages', true, 'value of pg_ringctl.dirty_pages; null if the policy does not set it'),
    ('pg_ringctl_parse_policy', 'index_read_ahead', true, 'value of pg_ringctl.index_read_ahead; null if the policy does not set it'),
    ('pg_ringctl_prewarm', 'relation', false, 'relation to be read: whatever has storage'),
    ('pg_ringctl_prewarm', 'ring', false, 'size of the ring of each process, such as `4MB`, or a number of kB; from 64 kB to 16 GB, 0: no ring, -1: the ring that a sequential scan would get, or, if that is the server''s own, one that sizes itself'),
    ('pg_ringctl_prewarm', 'mode', false, '`buffer`: read into shared buffers; `read`: read, but not into shared buffers; `prefetch`: ask the operating system to read'),
    ('pg_ringctl_prewarm', 'fork', false, '`main`, `fsm`, `vm` or `init`'),
    ('pg_ringctl_prewarm', 'first_block', false, 'first block to be read; null: block 0'),
    ('pg_ringctl_prewarm', 'last_block', false, 'last block to be read; null: the last block of the fork'),
    ('pg_ringctl_prewarm', 'workers', false, 'number of parallel workers that help, from 0 to 1024'),
    ('pg_ringctl_prewarm', 'fit', false, 'what to do if more blocks are to be read without a ring than shared buffers hold: `stop`: leave out the rest, `warn`: read them, with a warning, `ignore`: read them'),
    ('pg_ringctl_prewarm', 'blocks', true, 'blocks that were read, or found in shared buffers'),
    ('pg_ringctl_prewarm', 'blks_hit', true, 'of these, blocks found in shared buffers; this and the next four columns are null if mode is not buffer'),
    ('pg_ringctl_prewarm', 'blks_read', true, 'of these, blocks read'),
    ('pg_ringctl_prewarm', 'ring_buffers', true, 'size in buffers of the rings of all processes together; 0 if there was no ring'),
    ('pg_ringctl_prewarm', 'reuses', true, 'reads into the buffer that a slot held'),
    ('pg_ringctl_prewarm', 'escapes', true, 'buffers that escaped from the ring, for any reason'),
    ('pg_ringctl_prewarm', 'elapsed_time', true, 'elapsed time, in milliseconds'),
    ('pg_ringctl_prewarm_all', 'relation', false, 'table, partitioned table or materialized view'),
    ('pg_ringctl_prewarm_all', 'ring', false, 'size of the ring of each process, as for pg_ringctl_prewarm'),
    ('pg_ringctl_prewarm_all', 'parts', false, 'what is read, in this order: `indexes`, `table`, `toast` (the TOAST table and its index)'),
    ('pg_ringctl_prewarm_all', 'workers', false, 'number of parallel workers that help, from 0 to 1024'),
    ('pg_ringctl_prewarm_all', 'fit', false, 'what to do if more blocks, of all parts, are to be read without a ring than shared buffers hold, as for pg_ringctl_prewarm'),
    ('pg_ringctl_prewarm_all', 'relid', true, 'OID of the relation that was read'),
    ('pg_ringctl_prewarm_all', 'blocks', true, 'blocks that were read, or found in shared buffers; if there was no room for any of them, this and the columns that follow are null'),
    ('pg_ringctl_prewarm_all', 'blks_hit', true, 'of these, blocks found in shared buffers'),
    ('pg_ringctl_prewarm_all', 'blks_read', true, 'of these, blocks read'),
    ('pg_ringctl_prewarm_all', 'ring_buffers', true, 'size in buffers of the rings of all processes together; 0 if there was no ring'),
    ('pg_ringctl_prewarm_all', 'reuses', true, 'reads into the buffer that a slot held'),
    ('pg_ringctl_prewarm_all', 'escapes', true, 'buffers that escaped from the ring, for any reason'),
    ('pg_ringctl_prewarm_all', 'elapsed_time', true, 'elapsed time, in milliseconds'),
    ('pg_ringctl_prewarm_blocks', 'relation', false, 'relation to be read: whatever has storage'),
    ('pg_ringctl_prewarm_blocks', 'blocks', false, 'blocks of the main fork to be read'),
    ('pg_ringctl_prewarm_blocks', 'ring', false, 'size of the ring, as for pg_ringctl_prewarm'),
    ('pg_ringctl_prewarm_blocks', 'window_blocks', false, 'number of blocks among which the next one is chosen, from 1 to 1048576'),
    ('pg_ringctl_prewarm_blocks', 'reorder', false, '`zigzag`: go up as long as there is a block above, then down; `sorted`: one window after the other; `none`: in the order of the list'),
    ('pg_ringctl_prewarm_blocks', 'fit', false, 'what to do if more blocks are to be read without a ring than shared buffers hold, as for pg_ringctl_prewarm'),
    ('pg_ringctl_prewarm_blocks', 'blocks', true, 'blocks that were read, or found in shared buffers; one that is listed again while it waits in the window counts once'),
    ('pg_ringctl_prewarm_blocks', 'blks_hit', true, 'of these, blocks found in shared buffers'),
    ('pg_ringctl_prewarm_blocks', 'blks_read', true, 'of these, blocks read'),
    ('pg_ringctl_prewarm_blocks', 'ring_buffers', true, 'size of the ring in buffers; 0 if there was no ring'),
    ('pg_ringctl_prewarm_blocks', 'reuses', true, 'reads into the buffer that a slot held'),
    ('pg_ringctl_prewarm_blocks', 'escapes', true, 'buffers that escaped from the ring, for any reason'),
    ('pg_ringctl_prewarm_blocks', 'seek_distance', true, 'how far each block was from the one before, in blocks, added up'),
    ('pg_ringctl_prewarm_blocks', 'elapsed_time', true, 'elapsed time, in milliseconds'),
    ('pg_ringctl_reclaim', 'relation', false, 'relation whose buffers are evicted; a partitioned one stands for its partitions'),
    ('pg_ringctl_reclaim', 'buffers_evicted', true, 'number of buffers that were evicted'),
    ('pg_ringctl_reclaim', 'buffers_flushed', true, 'buffers that were written because they were dirty; from 18 on, including buffers that were written but could not be evicted'),
    ('pg_ringctl_reclaim', 'buffers_skipped', true, 'number of escaped buffers that were left, because they are pinned, adopted or used again'),
    ('pg_ringctl_reclaim_all', 'buffers_evicted', true, 'number of buffers that were evicted'),
    ('pg_ringctl_reclaim_all', 'buffers_flushed', true, 'buffers that were written because they were dirty; from 18 on, including buffers that were written but could not be evicted'),
    ('pg_ringctl_reclaim_all', 'buffers_skipped', true, 'number of escaped buffers that were left, because they are pinned, adopted or used again'),
    ('pg_ringctl_resolve', 'relation', false, 'relation that is to be scanned; a partitioned one stands for its partitions'),
    ('pg_ringctl_resolve', 'relid', true, 'OID of the relation, or of a partition'),
    ('pg_ringctl_resolve', 'ring_kb', true, 'least size of the ring in kB; 0: no ring. If scans of the relation are not touched, all columns but relid, blocks and reason are null'),
    ('pg_ringctl_resolve', 'ring_buffers', true, 'the same in buffers'),
    ('pg_ringctl_resolve', 'ring_buffers_max', true, 'size in buffers to which the ring may grow'),
    ('pg_ringctl_resolve', 'source', true, 'where the size comes from, as in pg_ringctl_rings'),
    ('pg_ringctl_resolve', 'look_ahead_max', true, 'number of blocks that the scan may look ahead; null if there is no ring'),
    ('pg_ringctl_resolve', 'threshold', true, 'number of blocks above which there is a ring'),
    ('pg_ringctl_resolve', 'blocks', true, 'number of blocks of the relation'),
    ('pg_ringctl_resolve', 'reason', true, 'why, in words'),
    ('pg_ringctl_ring_slots', 'pid', false, 'process ID of the process whose rings are shown'),
    ('pg_ringctl_set_policy', 'relation', false, 'table, partitioned table or materialized view; the user must own it'),
    ('pg_ringctl_set_policy', 'scan_ring', false, 'value of pg_ringctl.scan_ring, such as `4MB`, or a number of kB'),
    ('pg_ringctl_set_policy', 'scan_threshold', false, 'value of pg_ringctl.scan_threshold, such as `1GB`, or a number of blocks'),
    ('pg_ringctl_set_policy', 'dirty_pages', false, 'value of pg_ringctl.dirty_pages'),
    ('pg_ringctl_set_policy', 'index_read_ahead', false, 'value of pg_ringctl.index_read_ahead'),
    ('pg_ringctl_stats_reset', 'datid', false, 'OID of the database; 0: any'),
    ('pg_ringctl_stats_reset', 'relid', false, 'OID of the relation; 0: any');

-- The functions, but for those that are only there for a view.
CREATE TEMP VIEW functions AS
    SELECT p.*, proname IN (SELECT relname FROM members JOIN pg_class c ON (classid, objid) = ('pg_class'::regclass, c.oid)) AS has_view
      FROM members JOIN pg_proc p ON (classid, objid) = ('pg_proc'::regclass, p.oid)
     WHERE prorettype <> 'event_trigger'::regtype
       AND (pronargs > 0 OR proname NOT IN (SELECT relname FROM members JOIN pg_class c ON (classid, objid) = ('pg_class'::regclass, c.oid)));
-- Their arguments and results, those of functions of one name together.
CREATE TEMP VIEW parts AS
    SELECT proname, n AS name, is_result, min(i) AS number,
           string_agg(DISTINCT CASE t WHEN '"any"'::regtype THEN 'integer' ELSE format_type(t, NULL) END, ' or ' ORDER BY
                      CASE t WHEN '"any"'::regtype THEN 'integer' ELSE format_type(t, NULL) END DESC) AS type,
           max(regexp_replace(pg_get_function_arg_default(p.oid, i::integer), '::[a-z ]+(\[\])?$', '')) AS "default"
      FROM functions p,
           unnest(proargnames, coalesce(proallargtypes, proargtypes::oid[])) WITH ORDINALITY a (n, t, i),
           LATERAL (SELECT coalesce(proargmodes[i], 'i') AS mode) m,
           LATERAL (VALUES (false), (true)) r (is_result)
     WHERE mode IN (CASE WHEN is_result THEN 'o' ELSE 'i' END, 'b')
     GROUP BY proname, n, is_result;
CREATE TEMP VIEW described AS
    SELECT p.*, coalesce(d.description,
                         (SELECT col_description(attrelid, attnum) FROM pg_attribute
                           WHERE p.is_result AND attname = p.name AND attrelid IN (to_regclass(proname::text), to_regclass('pg_ringctl_stats'))
                           ORDER BY attrelid = to_regclass('pg_ringctl_stats') LIMIT 1)) AS description
      FROM parts p LEFT JOIN descriptions d ON (d.function, d.name, d.is_result) = (p.proname, p.name, p.is_result);
DO $$
DECLARE
    wrong text := (SELECT string_agg(proname || '.' || name, ', ') FROM described WHERE description IS NULL);
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'not described: %', wrong;
    END IF;
    wrong := (SELECT string_agg(d.function || '.' || d.name, ', ') FROM descriptions d
               WHERE NOT EXISTS (SELECT FROM parts p WHERE (p.proname, p.name, p.is_result) = (d.function, d.name, d.is_result)));
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'described in vain: %', wrong;
    END IF;
END $$;

\echo '# Reference'
\echo
\echo 'Every parameter, function, view and column that pg_ringctl has; the [guide](guide.md) says what they are for. Sizes of'
\echo 'rings are given as `pg_ringctl.scan_ring` takes them, `''4MB''`, or as a number of kB. Times are in milliseconds.'
\echo '`schemaname` and `relname` are null for relations of other databases. If an argument is null, a function returns null,'
\echo 'or no rows. In `pg_ringctl_set_policy()` and the functions that prewarm, however, a null that is not the argument''s'
\echo 'default is an error (22004), except for the relation to prewarm. A function that reads a relation checks the'
\echo 'privileges on it as pg_prewarm does. `dev/reference.sql` makes this page from the comments in the catalog.'
\echo
\echo '## Parameters'
SELECT format(E'\n### `%s` (%s)\n\n%s\n\nDefault: `%s`%s. %s', name, vartype, concat_ws(' ', short_desc, extra_desc),
              boot_val, CASE WHEN unit IS NOT NULL THEN format(' (in units of %s)', CASE WHEN unit = '8kB' THEN 'blocks' ELSE unit END) ELSE '' END,
              concat_ws(' ', CASE WHEN enumvals IS NOT NULL THEN 'Values: ' || array_to_string(ARRAY(SELECT format('`%s`', v) FROM unnest(enumvals) v), ', ') || '.' END,
                        CASE WHEN vartype = 'integer' THEN format('From %s to %s.', min_val, max_val) END,
                        CASE context WHEN 'user' THEN 'Any user may set it.' WHEN 'superuser' THEN 'Only superusers, and users with the privilege, may set it.'
                                     WHEN 'sighup' THEN 'In the configuration file; a reload is enough.' ELSE context END))
  FROM pg_settings WHERE name LIKE 'pg\_ringctl.%' ORDER BY name COLLATE "C";

\echo
\echo '## Functions'
SELECT format(E'\n### `%s`\n\n%s May be called by: %s. Returns %s.%s%s%s',
              CASE WHEN bool_or(has_view) THEN format('%s(%s)', proname, (SELECT name FROM parts a WHERE a.proname = p.proname AND NOT is_result)) ELSE proname END,
              (SELECT pg_temp.sentence(obj_description(f.oid, 'pg_proc')) FROM functions f WHERE f.proname = p.proname ORDER BY pronargdefaults DESC LIMIT 1),
              min(pg_temp.who(proacl)),
              min(CASE WHEN pg_get_function_result(oid) !~ 'record' THEN CASE WHEN proretset THEN 'rows of ' ELSE '' END || format_type(prorettype, NULL)
                       WHEN has_view THEN 'rows with the columns of the view of its name, but for `datname`, `schemaname` and `relname`'
                       WHEN proretset THEN 'rows with the columns below' ELSE 'a row with the columns below' END),
              CASE WHEN count(*) > 1 THEN E'\n\nFor `GRANT`: ' || string_agg(format('`%s`', oid::regprocedure), ' and ' ORDER BY pronargdefaults DESC, oid::regprocedure::text) || '.' END,
              (SELECT E'\n\n| argument | type | default | description |\n| --- | --- | --- | --- |\n' ||
                      string_agg(format('| `%s` | %s | %s | %s |', name, type, coalesce('`' || "default" || '`', ''),
                                        pg_temp.sentence(description)), E'\n' ORDER BY number)
                 FROM described d WHERE d.proname = p.proname AND NOT is_result),
              CASE WHEN NOT bool_or(has_view) THEN
              (SELECT E'\n\n| column | type | description |\n| --- | --- | --- |\n' ||
                      string_agg(format('| `%s` | %s | %s |', name, type, pg_temp.sentence(description)), E'\n' ORDER BY number)
                 FROM described d WHERE d.proname = p.proname AND is_result) END)
  FROM functions p GROUP BY proname ORDER BY proname COLLATE "C";

\echo
\echo '## Views'
SELECT format(E'\n### `%s`\n\n%s May be read by: %s.\n\n| column | type | description |\n| --- | --- | --- |\n%s', relname,
              pg_temp.sentence(obj_description(oid, 'pg_class')), pg_temp.who(relacl),
              (SELECT string_agg(format('| `%s` | %s | %s |', attname, format_type(atttypid, NULL),
                                 pg_temp.sentence(col_description(c.oid, attnum))), E'\n' ORDER BY attnum)
                 FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0))
  FROM members m JOIN pg_class c ON (classid, objid) = ('pg_class'::regclass, c.oid)
 WHERE relkind = 'v' ORDER BY relname COLLATE "C";

\echo
\echo '## Wait events'
\echo
\echo '| wait event (type `Extension`) | the process waits |'
\echo '| --- | --- |'
\echo '| `RingctlScanSharing` | For another scan of the same table, a moment. |'
\echo '| `RingctlPrewarmFinish` | For the parallel workers of its prewarm to read the blocks that they have taken. |'
\echo '| `RingctlPrewarmNext` | For the leader of a prewarm, to be told what to read next. |'
\echo
\echo '## EXPLAIN'
\echo
\echo '`EXPLAIN (RING)`, from 18 on, adds to each sequential scan, TID range scan and bitmap heap scan the ring that it would'
\echo 'get, and why; with `ANALYZE`, what the ring did: the counts of `pg_ringctl_stats`. With `VERBOSE`, each parallel worker'
\echo 'has its own lines. In text, a scan without a ring has `Ring: none` and a reason: that of `pg_ringctl_resolve()`; or that'
\echo 'it would read too little (`its range is too small`, `the blocks to be read fit into shared_buffers`); or, in mode'
\echo '`observe`, that the server uses no ring for such scans; or, for a scan that would get a ring, `left before it had read'
\echo 'enough` or `never executed`. In other formats, the group `Ring` has `Attached`, which is false then, and besides it only'
\echo '`Reason`. A scan that is left to the server''s ring has `Source: server` and the reason, and no counts.'
\echo
\echo 'Index scans have a line if `index_read_ahead` is on, or if the ring has a given size: `Read Ahead` with the'
\echo 'blocks that were asked for ahead, found in shared buffers, read, and asked for in vain (`unconsumed`); or the ring; or'
\echo 'the reason why there was neither. Other nodes have nothing.'
\echo
\echo '## Security labels'
\echo
\echo '`SECURITY LABEL FOR pg_ringctl ON TABLE t IS ''scan_ring=256kB, scan_threshold=0, dirty_pages=leave''` is the policy of a'
\echo 'table, as `pg_ringctl_set_policy()` sets it. The event trigger `pg_ringctl_warn_of_policies` warns if policies stay'
\echo 'behind when the extension is dropped.'
