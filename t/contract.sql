-- The contract: what CREATE EXTENSION makes, who may use it, how it fails.
--
-- Claims: every function and view has the signature, the comment and the
-- privileges that are documented; nothing is made outside the extension's
-- schema, which may be any and may change; DROP EXTENSION leaves nothing;
-- every parameter is described; errors have their SQLSTATE.

BEGIN;
SELECT plan(281);

CREATE SCHEMA ringctl;
CREATE EXTENSION pg_ringctl SCHEMA ringctl;
SET search_path = public, ringctl;

-- What there is, and that it is all in that schema.
CREATE TEMP VIEW members AS
    SELECT classid, objid FROM pg_depend
     WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_ringctl');

SELECT bag_eq(
    $$SELECT pg_describe_object(classid, objid, 0) FROM members WHERE classid <> 'pg_type'::regclass$$,
    $$VALUES ('event trigger pg_ringctl_warn_of_policies'),
             ('function pg_ringctl_drop_all_policies()'),
             ('function pg_ringctl_drop_policy(regclass)'),
             ('function pg_ringctl_escapes()'),
             ('function pg_ringctl_last_scans()'),
             ('function pg_ringctl_map(integer)'),
             ('function pg_ringctl_map_relation(regclass,integer)'),
             ('function pg_ringctl_parse_policy(text)'),
             ('function pg_ringctl_pollution()'),
             ('function pg_ringctl_prewarm(regclass,bigint,text,text,bigint,bigint,integer,text)'),
             ('function pg_ringctl_prewarm(regclass,text,text,text,bigint,bigint,integer,text)'),
             ('function pg_ringctl_prewarm_all(regclass,bigint,text[],integer,text)'),
             ('function pg_ringctl_prewarm_all(regclass,text,text[],integer,text)'),
             ('function pg_ringctl_prewarm_blocks(regclass,bigint[],bigint,integer,text,text)'),
             ('function pg_ringctl_prewarm_blocks(regclass,bigint[],text,integer,text,text)'),
             ('function pg_ringctl_progress()'),
             ('function pg_ringctl_reclaim(regclass)'),
             ('function pg_ringctl_reclaim_all()'),
             ('function pg_ringctl_resolve(regclass)'),
             ('function pg_ringctl_ring_slots()'),
             ('function pg_ringctl_ring_slots(integer)'),
             ('function pg_ringctl_rings()'),
             ('function pg_ringctl_set_policy(regclass,"any","any",text,boolean)'),
             ('function pg_ringctl_set_policy(regclass,text,text,text,boolean)'),
             ('function pg_ringctl_stats()'),
             ('function pg_ringctl_stats_info()'),
             ('function pg_ringctl_stats_reset(oid,oid)'),
             ('function pg_ringctl_warn_of_policies()'),
             ('view pg_ringctl_escapes'),
             ('view pg_ringctl_policies'),
             ('view pg_ringctl_pollution'),
             ('view pg_ringctl_progress'),
             ('view pg_ringctl_ring_slots'),
             ('view pg_ringctl_rings'),
             ('view pg_ringctl_stats'),
             ('view pg_ringctl_stats_info')$$,
    'the extension has these members and no others');
SELECT is_empty(
    $$SELECT p.oid::regprocedure::text FROM members m JOIN pg_proc p ON (classid, objid) = ('pg_proc'::regclass, p.oid)
       WHERE pronamespace <> 'ringctl'::regnamespace
      UNION ALL
      SELECT c.oid::regclass::text FROM members m JOIN pg_class c ON (classid, objid) = ('pg_class'::regclass, c.oid)
       WHERE relnamespace <> 'ringctl'::regnamespace$$,
    'all of them are in the schema of the extension');
SELECT ok((SELECT extrelocatable FROM pg_extension WHERE extname = 'pg_ringctl'), 'it is relocatable');
SELECT ok(NOT (SELECT trusted FROM pg_available_extension_versions
                WHERE name = 'pg_ringctl' AND version = '1.0'), 'it is not trusted');

-- Comments
SELECT is_empty(
    $$SELECT pg_describe_object(classid, objid, 0) FROM members
       WHERE classid <> 'pg_type'::regclass AND obj_description(objid, classid::regclass::name) IS NULL$$,
    'every function and view has a comment');
SELECT is_empty(
    $$SELECT attrelid::regclass, attname FROM members JOIN pg_attribute ON attrelid = objid
       WHERE classid = 'pg_class'::regclass AND attnum > 0 AND col_description(attrelid, attnum) IS NULL$$,
    'every column has a comment');

-- Signatures
-- A ring is given as text, which has the default, or as a number of kB.
SELECT function_returns('ringctl', 'pg_ringctl_prewarm',
    ARRAY['regclass', type, 'text', 'text', 'bigint', 'bigint', 'integer', 'text'], 'record')
  FROM unnest('{text,bigint}'::text[]) type;
SELECT is(pg_get_function_arguments(('pg_ringctl_prewarm(regclass,' || type || ',text,text,bigint,bigint,integer,text)')::regprocedure),
    'relation regclass, ring ' || given || ', mode text DEFAULT ''buffer''::text, '
    'fork text DEFAULT ''main''::text, first_block bigint DEFAULT NULL::bigint, '
    'last_block bigint DEFAULT NULL::bigint, workers integer DEFAULT 0, fit text DEFAULT ''stop''::text, '
    'OUT blocks bigint, OUT blks_hit bigint, OUT blks_read bigint, '
    'OUT ring_buffers integer, OUT reuses bigint, OUT escapes bigint, OUT elapsed_time double precision',
    'arguments of pg_ringctl_prewarm: ' || type)
  FROM (VALUES ('text', 'text DEFAULT ''0''::text'), ('bigint', 'bigint')) r (type, given);
SELECT function_returns('ringctl', 'pg_ringctl_prewarm_all',
    ARRAY['regclass', type, 'text[]', 'integer', 'text'], 'setof record')
  FROM unnest('{text,bigint}'::text[]) type;
SELECT is(pg_get_function_arguments(('pg_ringctl_prewarm_all(regclass,' || type || ',text[],integer,text)')::regprocedure),
    'relation regclass, ring ' || given || ', parts text[] DEFAULT ''{indexes,table,toast}''::text[], '
    'workers integer DEFAULT 0, fit text DEFAULT ''stop''::text, OUT relid oid, '
    'OUT blocks bigint, OUT blks_hit bigint, OUT blks_read bigint, '
    'OUT ring_buffers integer, OUT reuses bigint, OUT escapes bigint, OUT elapsed_time double precision',
    'arguments of pg_ringctl_prewarm_all: ' || type)
  FROM (VALUES ('text', 'text DEFAULT ''0''::text'), ('bigint', 'bigint')) r (type, given);
SELECT function_returns('ringctl', 'pg_ringctl_prewarm_blocks',
    ARRAY['regclass', 'bigint[]', type, 'integer', 'text', 'text'], 'record')
  FROM unnest('{text,bigint}'::text[]) type;
SELECT is(pg_get_function_arguments(('pg_ringctl_prewarm_blocks(regclass,bigint[],' || type || ',integer,text,text)')::regprocedure),
    'relation regclass, blocks bigint[], ring ' || given || ', window_blocks integer DEFAULT 200, '
    'reorder text DEFAULT ''zigzag''::text, fit text DEFAULT ''stop''::text, OUT blocks bigint, OUT blks_hit bigint, '
    'OUT blks_read bigint, OUT ring_buffers integer, OUT reuses bigint, OUT escapes bigint, OUT seek_distance bigint, OUT elapsed_time double precision',
    'arguments of pg_ringctl_prewarm_blocks: ' || type)
  FROM (VALUES ('text', 'text DEFAULT ''0''::text'), ('bigint', 'bigint')) r (type, given);
SELECT is(pg_get_function_arguments('pg_ringctl_stats_reset'::regproc),
    'datid oid DEFAULT 0, relid oid DEFAULT 0', 'arguments of pg_ringctl_stats_reset');
SELECT function_returns('ringctl', 'pg_ringctl_stats_reset', ARRAY['oid', 'oid'],
    'timestamp with time zone');
SELECT function_returns('ringctl', 'pg_ringctl_stats_info', ARRAY[]::text[], 'record');
SELECT function_returns('ringctl', 'pg_ringctl_stats', ARRAY[]::text[], 'setof record');
SELECT function_returns('ringctl', 'pg_ringctl_rings', ARRAY[]::text[], 'setof record');
SELECT is(pg_get_function_arguments(func), 'OUT ringid bigint, ' || pid || ' pid integer, OUT datid oid, OUT relid oid, '
    'OUT relforknumber smallint, OUT slot integer, OUT bufferid integer, OUT relblocknumber bigint, OUT holds_own_block boolean, OUT isdirty boolean, '
    'OUT usagecount smallint, OUT pinning_backends integer, OUT is_current boolean', 'arguments of ' || func::text)
  FROM (VALUES ('pg_ringctl_ring_slots()'::regprocedure, 'OUT'), ('pg_ringctl_ring_slots(integer)', 'INOUT')) f (func, pid);
SELECT is(pg_get_function_result(func), 'SETOF record', 'result of ' || func::text)
  FROM unnest('{pg_ringctl_ring_slots(), pg_ringctl_ring_slots(integer)}'::regprocedure[]) func;
SELECT function_returns('ringctl', 'pg_ringctl_progress', ARRAY[]::text[], 'setof record');
SELECT function_returns('ringctl', 'pg_ringctl_escapes', ARRAY[]::text[], 'setof record');
SELECT function_returns('ringctl', 'pg_ringctl_reclaim', ARRAY['regclass'], 'record');
SELECT is(pg_get_function_arguments('pg_ringctl_reclaim'::regproc),
    'relation regclass, OUT buffers_evicted integer, OUT buffers_flushed integer, '
    'OUT buffers_skipped integer', 'arguments of pg_ringctl_reclaim');
SELECT function_returns('ringctl', 'pg_ringctl_reclaim_all', ARRAY[]::text[], 'record');
SELECT is(pg_get_function_arguments('pg_ringctl_reclaim_all'::regproc),
    'OUT buffers_evicted integer, OUT buffers_flushed integer, OUT buffers_skipped integer',
    'arguments of pg_ringctl_reclaim_all');
SELECT function_returns('ringctl', 'pg_ringctl_pollution', ARRAY[]::text[], 'setof record');
SELECT function_returns('ringctl', 'pg_ringctl_map_relation', ARRAY['regclass', 'integer'], 'setof text');
SELECT function_returns('ringctl', 'pg_ringctl_map', ARRAY['integer'], 'setof text');
SELECT is(pg_get_function_arguments('pg_ringctl_map'::regproc),
    'width integer DEFAULT 64', 'arguments of pg_ringctl_map');
SELECT is(pg_get_function_arguments('pg_ringctl_map_relation'::regproc),
    'relation regclass, width integer DEFAULT 64', 'arguments of pg_ringctl_map_relation');
SELECT function_returns('ringctl', 'pg_ringctl_last_scans', ARRAY[]::text[], 'setof record');
SELECT is(pg_get_function_arguments('pg_ringctl_last_scans'::regproc),
    'OUT plan_node_id integer, OUT relid oid, OUT worker integer, OUT scans bigint, OUT ring_kb bigint, '
    'OUT ring_buffers integer, OUT source text, OUT elapsed_time double precision, OUT blocks bigint, '
    'OUT blks_hit bigint, OUT blks_read bigint, OUT fills bigint, OUT reuses bigint, '
    'OUT escapes_pinned bigint, OUT escapes_dirty bigint, OUT escapes_adopted bigint, OUT slots_lost bigint, '
    'OUT blks_unconsumed bigint, OUT wal_flushes bigint, OUT buffers_released bigint, OUT scan_sharing_blks_hit bigint, '
    'OUT scan_sharing_waits bigint, OUT scan_sharing_wait_time double precision', 'result of pg_ringctl_last_scans');
SELECT function_returns('ringctl', 'pg_ringctl_resolve', ARRAY['regclass'], 'setof record');
SELECT is(pg_get_function_arguments('pg_ringctl_resolve'::regproc),
    'relation regclass, OUT relid oid, OUT ring_kb bigint, OUT ring_buffers integer, OUT ring_buffers_max integer, '
    'OUT source text, OUT look_ahead_max integer, OUT threshold bigint, OUT blocks bigint, OUT reason text', 'arguments of pg_ringctl_resolve');
-- The planner must not give them to workers, whose session is another one.
SELECT is_empty(
    $$SELECT p.oid::regprocedure FROM members m JOIN pg_proc p ON (classid, objid) = ('pg_proc'::regclass, p.oid)
       WHERE prosecdef
          OR concat(provolatile, proparallel) <> CASE WHEN proname = 'pg_ringctl_parse_policy' THEN 'is'
                                                      WHEN proname ~ 'polic' THEN 'vu' ELSE 'vr' END$$,
    'functions are volatile, restricted to the leader or if they write unsafe, and run with their caller''s rights');


-- A function that is declared with other columns than the library fills, because one of the two is of another version,
-- returns nothing.
CREATE FUNCTION pg_temp.call_with_columns(func oid, more integer) RETURNS record LANGUAGE plpgsql AS $$
DECLARE
    arguments text;
    given text;
    result record;
BEGIN
    SELECT string_agg(concat_ws(' ', CASE m WHEN 'o' THEN 'OUT' WHEN 'b' THEN 'INOUT' END, n, format_type(t, NULL)), ', ' ORDER BY i)
               FILTER (WHERE more > 0 OR i < cardinality(proallargtypes))
           || CASE WHEN more > 0 THEN ', OUT another integer' ELSE '' END,
           string_agg(CASE t WHEN 'regclass'::regtype THEN '''pg_class''' ELSE 'NULL' END, ', ' ORDER BY i) FILTER (WHERE m <> 'o')
      INTO arguments, given
      FROM pg_proc p, unnest(proargnames, proallargtypes, proargmodes) WITH ORDINALITY a (n, t, m, i)
     WHERE p.oid = func;
    EXECUTE (SELECT format('CREATE FUNCTION pg_temp.other_columns(%s) RETURNS %s AS %L, %L LANGUAGE C', arguments,
                           CASE WHEN proretset THEN 'SETOF record' ELSE 'record' END, probin, prosrc)
               FROM pg_proc WHERE oid = func);
    EXECUTE format('SELECT * FROM pg_temp.other_columns(%s)', given) INTO result;
    RETURN result;
END $$;
SELECT throws_ok(format('SELECT pg_temp.call_with_columns(%s, %s)', p.oid, more), '55000', NULL,
                 format('%s: declared with %s columns', p.oid::regprocedure, CASE WHEN more > 0 THEN 'more' ELSE 'fewer' END))
  FROM members m JOIN pg_proc p ON (classid, objid) = ('pg_proc'::regclass, p.oid) JOIN pg_language l ON l.oid = prolang,
       unnest('{-1,1}'::integer[]) more
 WHERE lanname = 'c' AND prorettype = 'record'::regtype
 ORDER BY p.oid, more;

CREATE TEMP TABLE expected_columns (viewname name, n serial, column_name name, type text);
INSERT INTO expected_columns (viewname, column_name, type) VALUES
    ('pg_ringctl_stats', 'datid', 'oid'), ('pg_ringctl_stats', 'datname', 'name'),
    ('pg_ringctl_stats', 'relid', 'oid'), ('pg_ringctl_stats', 'schemaname', 'name'),
    ('pg_ringctl_stats', 'relname', 'name'), ('pg_ringctl_stats', 'kind', 'text'),
    ('pg_ringctl_stats', 'scans', 'bigint'), ('pg_ringctl_stats', 'workers_launched', 'bigint'),
    ('pg_ringctl_stats', 'ring_buffers', 'integer'), ('pg_ringctl_stats', 'ring_buffers_max', 'integer'),
    ('pg_ringctl_stats', 'total_time', 'double precision'),
    ('pg_ringctl_stats', 'last_scan', 'timestamp with time zone'),
    ('pg_ringctl_stats', 'stats_reset', 'timestamp with time zone'), ('pg_ringctl_stats', 'blocks', 'bigint'),
    ('pg_ringctl_stats', 'blks_hit', 'bigint'), ('pg_ringctl_stats', 'blks_read', 'bigint'),
    ('pg_ringctl_stats', 'fills', 'bigint'), ('pg_ringctl_stats', 'reuses', 'bigint'),
    ('pg_ringctl_stats', 'escapes_pinned', 'bigint'), ('pg_ringctl_stats', 'escapes_dirty', 'bigint'),
    ('pg_ringctl_stats', 'escapes_adopted', 'bigint'), ('pg_ringctl_stats', 'slots_lost', 'bigint'),
    ('pg_ringctl_stats', 'blks_unconsumed', 'bigint'), ('pg_ringctl_stats', 'wal_flushes', 'bigint'),
    ('pg_ringctl_stats', 'buffers_released', 'bigint'), ('pg_ringctl_stats', 'scan_sharing_blks_hit', 'bigint'),
    ('pg_ringctl_stats', 'scan_sharing_waits', 'bigint'),
    ('pg_ringctl_stats', 'scan_sharing_wait_time', 'double precision'),
    ('pg_ringctl_stats_info', 'entries', 'bigint'), ('pg_ringctl_stats_info', 'entries_dropped', 'bigint'),
    ('pg_ringctl_stats_info', 'escapes_dropped', 'bigint'), ('pg_ringctl_stats_info', 'rings_not_shown', 'bigint'),
    ('pg_ringctl_stats_info', 'stats_reset', 'timestamp with time zone'),
    ('pg_ringctl_rings', 'ringid', 'bigint'), ('pg_ringctl_rings', 'pid', 'integer'),
    ('pg_ringctl_rings', 'leader_pid', 'integer'), ('pg_ringctl_rings', 'datid', 'oid'),
    ('pg_ringctl_rings', 'datname', 'name'), ('pg_ringctl_rings', 'relid', 'oid'),
    ('pg_ringctl_rings', 'schemaname', 'name'), ('pg_ringctl_rings', 'relname', 'name'),
    ('pg_ringctl_rings', 'kind', 'text'), ('pg_ringctl_rings', 'source', 'text'),
    ('pg_ringctl_rings', 'ring_kb', 'bigint'), ('pg_ringctl_rings', 'ring_buffers', 'integer'),
    ('pg_ringctl_rings', 'occupied', 'integer'), ('pg_ringctl_rings', 'current_slot', 'integer'),
    ('pg_ringctl_rings', 'look_ahead', 'bigint'), ('pg_ringctl_rings', 'blocks_total', 'bigint'),
    ('pg_ringctl_rings', 'blocks_done', 'bigint'), ('pg_ringctl_rings', 'fills', 'bigint'),
    ('pg_ringctl_rings', 'reuses', 'bigint'), ('pg_ringctl_rings', 'escapes_pinned', 'bigint'),
    ('pg_ringctl_rings', 'escapes_dirty', 'bigint'), ('pg_ringctl_rings', 'escapes_adopted', 'bigint'),
    ('pg_ringctl_rings', 'scan_sharing_blks_hit', 'bigint'), ('pg_ringctl_rings', 'scan_sharing_waits', 'bigint'),
    ('pg_ringctl_rings', 'scan_sharing_wait_time', 'double precision'),
    ('pg_ringctl_rings', 'scan_start', 'timestamp with time zone'),
    ('pg_ringctl_ring_slots', 'ringid', 'bigint'), ('pg_ringctl_ring_slots', 'pid', 'integer'),
    ('pg_ringctl_ring_slots', 'datid', 'oid'), ('pg_ringctl_ring_slots', 'datname', 'name'),
    ('pg_ringctl_ring_slots', 'relid', 'oid'), ('pg_ringctl_ring_slots', 'schemaname', 'name'),
    ('pg_ringctl_ring_slots', 'relname', 'name'), ('pg_ringctl_ring_slots', 'relforknumber', 'smallint'),
    ('pg_ringctl_ring_slots', 'slot', 'integer'), ('pg_ringctl_ring_slots', 'bufferid', 'integer'),
    ('pg_ringctl_ring_slots', 'relblocknumber', 'bigint'), ('pg_ringctl_ring_slots', 'holds_own_block', 'boolean'),
    ('pg_ringctl_ring_slots', 'isdirty', 'boolean'), ('pg_ringctl_ring_slots', 'usagecount', 'smallint'),
    ('pg_ringctl_ring_slots', 'pinning_backends', 'integer'), ('pg_ringctl_ring_slots', 'is_current', 'boolean'),
    ('pg_ringctl_progress', 'pid', 'integer'), ('pg_ringctl_progress', 'datid', 'oid'),
    ('pg_ringctl_progress', 'datname', 'name'), ('pg_ringctl_progress', 'relid', 'oid'),
    ('pg_ringctl_progress', 'schemaname', 'name'), ('pg_ringctl_progress', 'relname', 'name'),
    ('pg_ringctl_progress', 'command', 'text'), ('pg_ringctl_progress', 'phase', 'text'),
    ('pg_ringctl_progress', 'blocks_total', 'bigint'), ('pg_ringctl_progress', 'blocks_done', 'bigint'),
    ('pg_ringctl_progress', 'percent', 'double precision'), ('pg_ringctl_progress', 'workers', 'integer'),
    ('pg_ringctl_progress', 'command_start', 'timestamp with time zone'),
    ('pg_ringctl_escapes', 'bufferid', 'integer'), ('pg_ringctl_escapes', 'datid', 'oid'),
    ('pg_ringctl_escapes', 'datname', 'name'), ('pg_ringctl_escapes', 'relid', 'oid'),
    ('pg_ringctl_escapes', 'schemaname', 'name'), ('pg_ringctl_escapes', 'relname', 'name'),
    ('pg_ringctl_escapes', 'relforknumber', 'smallint'), ('pg_ringctl_escapes', 'relblocknumber', 'bigint'),
    ('pg_ringctl_escapes', 'reason', 'text'), ('pg_ringctl_escapes', 'pid', 'integer'),
    ('pg_ringctl_escapes', 'escaped_at', 'timestamp with time zone'), ('pg_ringctl_escapes', 'isdirty', 'boolean'),
    ('pg_ringctl_escapes', 'usagecount', 'smallint'),
    ('pg_ringctl_pollution', 'datid', 'oid'), ('pg_ringctl_pollution', 'datname', 'name'),
    ('pg_ringctl_pollution', 'relid', 'oid'), ('pg_ringctl_pollution', 'schemaname', 'name'),
    ('pg_ringctl_pollution', 'relname', 'name'), ('pg_ringctl_pollution', 'relfilenode', 'oid'),
    ('pg_ringctl_pollution', 'reltablespace', 'oid'), ('pg_ringctl_pollution', 'buffers', 'bigint'),
    ('pg_ringctl_pollution', 'in_ring', 'bigint'), ('pg_ringctl_pollution', 'escaped', 'bigint'),
    ('pg_ringctl_pollution', 'dirty', 'bigint'), ('pg_ringctl_pollution', 'pool_fraction', 'double precision'),
    ('pg_ringctl_policies', 'relid', 'oid'), ('pg_ringctl_policies', 'schemaname', 'name'),
    ('pg_ringctl_policies', 'relname', 'name'), ('pg_ringctl_policies', 'scan_ring', 'text'),
    ('pg_ringctl_policies', 'scan_threshold', 'text'), ('pg_ringctl_policies', 'dirty_pages', 'text'),
    ('pg_ringctl_policies', 'index_read_ahead', 'text');
SELECT results_eq(
    format($$SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
              WHERE attrelid = 'ringctl.%I'::regclass AND attnum > 0 ORDER BY attnum$$, viewname),
    format($$SELECT column_name, type FROM expected_columns WHERE viewname = %L ORDER BY n$$, viewname),
    'columns of ' || viewname)
  FROM (SELECT DISTINCT viewname FROM expected_columns) v ORDER BY viewname;

-- Privileges
CREATE ROLE regress_ringctl_plain;
CREATE ROLE regress_ringctl_reader IN ROLE pg_read_all_stats;
GRANT USAGE ON SCHEMA ringctl TO regress_ringctl_plain, regress_ringctl_reader;

SELECT is(has_function_privilege(role, func, 'EXECUTE'), expected, role || ' and ' || func)
  FROM (VALUES ('pg_ringctl_prewarm(regclass,bigint,text,text,bigint,bigint,integer,text)', true, true),
               ('pg_ringctl_prewarm(regclass,text,text,text,bigint,bigint,integer,text)', true, true),
               ('pg_ringctl_prewarm_all(regclass,bigint,text[],integer,text)', true, true),
               ('pg_ringctl_prewarm_all(regclass,text,text[],integer,text)', true, true),
               ('pg_ringctl_prewarm_blocks(regclass,bigint[],bigint,integer,text,text)', true, true),
               ('pg_ringctl_prewarm_blocks(regclass,bigint[],text,integer,text,text)', true, true),
               ('pg_ringctl_stats()', false, true),
               ('pg_ringctl_stats_info()', false, true),
               ('pg_ringctl_stats_reset(oid,oid)', false, false),
               ('pg_ringctl_rings()', false, true),
               ('pg_ringctl_ring_slots()', false, true),
               ('pg_ringctl_ring_slots(integer)', false, true),
               ('pg_ringctl_progress()', false, true),
               ('pg_ringctl_escapes()', false, true),
               ('pg_ringctl_pollution()', false, true),
               ('pg_ringctl_map(integer)', false, true),
               ('pg_ringctl_map_relation(regclass,integer)', false, true),
               ('pg_ringctl_reclaim(regclass)', false, false),
               ('pg_ringctl_reclaim_all()', false, false),
               ('pg_ringctl_last_scans()', true, true),
               ('pg_ringctl_set_policy(regclass,"any","any",text,boolean)', true, true),
               ('pg_ringctl_set_policy(regclass,text,text,text,boolean)', true, true),
               ('pg_ringctl_drop_policy(regclass)', true, true),
               ('pg_ringctl_drop_all_policies()', true, true),
               ('pg_ringctl_parse_policy(text)', true, true),
               ('pg_ringctl_resolve(regclass)', true, true)) f (func, plain, reader),
       LATERAL (VALUES ('regress_ringctl_plain', plain), ('regress_ringctl_reader', reader)) r (role, expected);
SELECT is(has_table_privilege(role, view, 'SELECT'), expected, role || ' and ' || view)
  FROM (VALUES ('pg_ringctl_stats'), ('pg_ringctl_stats_info'), ('pg_ringctl_rings'), ('pg_ringctl_ring_slots'), ('pg_ringctl_progress'), ('pg_ringctl_escapes'),
               ('pg_ringctl_pollution')) v (view),
       (VALUES ('regress_ringctl_plain', false), ('regress_ringctl_reader', true)) r (role, expected);

CREATE TABLE secret (id int PRIMARY KEY);
INSERT INTO secret VALUES (1);
CREATE TABLE shared_one (id int PRIMARY KEY);
GRANT SELECT ON shared_one TO regress_ringctl_plain;
SET ROLE regress_ringctl_plain;
SELECT throws_ok('SELECT * FROM ringctl.pg_ringctl_stats', '42501');
SELECT throws_ok('SELECT * FROM ringctl.pg_ringctl_stats_info', '42501');
SELECT throws_ok('SELECT * FROM ringctl.pg_ringctl_stats()', '42501');
SELECT throws_ok('SELECT ringctl.pg_ringctl_stats_reset()', '42501');
SELECT throws_ok('SELECT * FROM ringctl.' || what, '42501')
  FROM unnest('{pg_ringctl_rings, pg_ringctl_ring_slots, pg_ringctl_progress, pg_ringctl_escapes, pg_ringctl_pollution, pg_ringctl_rings(), pg_ringctl_progress(),
                pg_ringctl_ring_slots(), pg_ringctl_escapes(), pg_ringctl_pollution(), pg_ringctl_map(),
                pg_ringctl_reclaim_all()}'::text[]) what;
SELECT lives_ok('SELECT * FROM ringctl.pg_ringctl_last_scans()', 'everybody sees what his scans did');
SELECT lives_ok($$SELECT * FROM ringctl.pg_ringctl_resolve('public.secret')$$, 'and what they would get');
SELECT throws_ok($$SELECT ringctl.pg_ringctl_prewarm('public.secret')$$, '42501', 'permission denied for table secret');
SELECT throws_ok($$SELECT ringctl.pg_ringctl_prewarm('public.secret_pkey')$$, '42501',
                 'permission denied for index secret_pkey');
SELECT lives_ok($$SELECT ringctl.pg_ringctl_prewarm('public.shared_one')$$, 'who may read a table may prewarm it');
SELECT lives_ok($$SELECT ringctl.pg_ringctl_prewarm('public.shared_one_pkey')$$, 'and its index');
SELECT throws_ok($$SELECT ringctl.pg_ringctl_prewarm_all('public.secret')$$, '42501', 'permission denied for table secret');
SELECT lives_ok($$SELECT ringctl.pg_ringctl_prewarm_all('public.shared_one')$$, 'and both at once');
SELECT throws_ok('SET pg_ringctl.max_ring = 64', '42501');
SELECT throws_ok('SET pg_ringctl.track = off', '42501');
SELECT throws_ok('SET pg_ringctl.max_entries = 200', '55P02');
SELECT throws_ok('SET pg_ringctl.max_shared_memory = ''8MB''', '55P02');
SELECT lives_ok('SET pg_ringctl.scan_ring = 64', 'a plain user sizes his rings');
SELECT throws_ok('SET pg_ringctl.enabled = off', '55P02');
SET ROLE regress_ringctl_reader;
SELECT lives_ok('SELECT * FROM ringctl.pg_ringctl_stats', 'who reads all statistics reads these');
SELECT lives_ok('SELECT * FROM ringctl.pg_ringctl_stats_info', 'and how many there are');
SELECT throws_ok('SELECT ringctl.pg_ringctl_stats_reset()', '42501');
SELECT lives_ok('SELECT * FROM ringctl.' || what, 'who reads all statistics reads ' || what)
  FROM unnest('{pg_ringctl_rings, pg_ringctl_ring_slots, pg_ringctl_escapes, pg_ringctl_pollution, pg_ringctl_ring_slots(),
                pg_ringctl_map()}'::text[]) what;
SELECT throws_ok('SELECT ringctl.pg_ringctl_reclaim_all()', '42501');
RESET ROLE;
RESET pg_ringctl.scan_ring;

-- Errors
CREATE VIEW a_view AS SELECT 1 AS one;
CREATE TABLE a_parent (id int) PARTITION BY RANGE (id);
CREATE TABLE some_blocks AS SELECT i, repeat('x', 1800) AS f FROM generate_series(1, 12) i;
CREATE TEMP TABLE a_temp AS SELECT 1 AS one;
CREATE SEQUENCE a_sequence;
CREATE FUNCTION blocks(rel regclass) RETURNS bigint LANGUAGE sql
RETURN pg_relation_size(rel) / current_setting('block_size')::int;

SELECT throws_ok(format('SELECT pg_ringctl_prewarm(%s)', args), state::char(5), NULL, state || ': ' || args)
  FROM (VALUES ($$'some_blocks', -2$$, '22023'),
               ($$'some_blocks', 1$$, '22023'),
               ($$'some_blocks', 63$$, '22023'),
               ($$'some_blocks', 16777217$$, '22023'),
               ($$'some_blocks', 64, 'read'$$, '22023'),
               ($$'some_blocks', -1, 'prefetch'$$, '22023'),
               ($$'some_blocks', 0, 'warm'$$, '22023'),
               ($$'some_blocks', 0, 'buffer', 'spoon'$$, '22023'),
               ($$'some_blocks', 0, 'buffer', 'init'$$, '22023'),
               ($$'some_blocks', NULL$$, '22004'),
               ($$'some_blocks', 0, NULL$$, '22004'),
               ($$'some_blocks', 0, 'buffer', NULL$$, '22004'),
               ($$'some_blocks', 0, 'buffer', 'main', -1$$, '22023'),
               (format($$'some_blocks', 0, 'buffer', 'main', %s$$, blocks('some_blocks')), '22023'),
               (format($$'some_blocks', 0, 'buffer', 'main', 0, %s$$, blocks('some_blocks')), '22023'),
               ($$'some_blocks', 0, 'buffer', 'main', 2, 1$$, '22023'),
               ($$'a_view'$$, '42809'),
               ($$'a_parent'$$, '42809'),
               ($$'a_temp', 64$$, '0A000'),
               ($$'some_blocks', 3000000000$$, '22023'),
               ($$'some_blocks', '0.2kB'$$, '22023'),
               ($$'some_blocks', workers => -1$$, '22023'),
               ($$'some_blocks', workers => 1025$$, '22023'),
               ($$'some_blocks', workers => NULL$$, '22004'),
               ($$'some_blocks', 0, 'read', workers => 1$$, '22023'),
               ($$'some_blocks', fit => 'tight'$$, '22023'),
               ($$'some_blocks', fit => NULL$$, '22004'),
               ($$4294967295::oid::regclass$$, '42P01')) t (args, state);
SELECT throws_ok(format('SELECT pg_ringctl_prewarm_all(%s)', args), state::char(5), NULL, state || ': all of ' || args)
  FROM (VALUES ($$'some_blocks', 63$$, '22023'),
               ($$'some_blocks', parts => '{heap}'$$, '22023'),
               ($$'some_blocks', parts => '{NULL}'$$, '22004'),
               ($$'some_blocks', parts => NULL$$, '22004'),
               ($$'some_blocks', workers => 1025$$, '22023'),
               ($$'some_blocks', fit => 'tight'$$, '22023'),
               ($$'a_view'$$, '42809'),
               ($$'a_sequence'$$, '42809'),
               ($$'secret_pkey'$$, '42809'),
               ($$'a_temp', 64$$, '0A000'),
               ($$4294967295::oid::regclass$$, '42P01')) t (args, state);
SELECT throws_ok(format('SELECT pg_ringctl_map(%s)', args), state::char(5), NULL, state || ': map of ' || args)
  FROM (VALUES ('0', '22023'),
               ('-1', '22023'),
               ('1001', '22023'),
               ('2147483647', '22023')) t (args, state);
SELECT throws_ok(format('SELECT pg_ringctl_map_relation(%s)', args), state::char(5), NULL, state || ': map of ' || args)
  FROM (VALUES ($$'a_view'$$, '42809'),
               ($$'some_blocks', 1001$$, '22023'),
               ($$'a_temp'$$, '0A000')) t (args, state);
SELECT throws_ok(format('SELECT pg_ringctl_resolve(%L)', relation), state::char(5), NULL, state || ': ring of ' || relation)
  FROM (VALUES ('a_view', '42809'),
               ('secret_pkey', '42809'),
               ('a_sequence', '42809')) t (relation, state);
SELECT is_empty('SELECT * FROM pg_ringctl_resolve(NULL)', 'no relation, no ring');
SELECT isnt((pg_ringctl_resolve('a_temp')).reason, NULL, 'a temporary table is not touched');
SELECT is((pg_ringctl_resolve('a_temp')).source, NULL, 'so there is nothing but the reason');
SELECT is((pg_ringctl_prewarm(NULL)).blocks, NULL, 'no relation, no result');
SELECT is((pg_ringctl_prewarm('some_blocks', 64)).blocks, blocks('some_blocks'), 'all blocks are read');
SELECT is_empty('SELECT FROM pg_locks WHERE relation = ''a_view''::regclass AND mode = ''AccessShareLock''',
                'no lock is left by what failed');

SELECT throws_ok('SET pg_ringctl.' || setting, '22023', NULL, 'bad value: ' || setting)
  FROM (VALUES ('scan_ring = 1'), ('scan_ring = 63'), ('scan_ring = -2'), ('scan_ring = ''17GB'''),
               ('max_ring = 0'), ('max_ring = 63'), ('max_ring = -2'), ('mode = ''on'''),
               ('dirty_pages = ''keep'''), ('scan_threshold = -2'), ('headroom = -1'),
               ('max_ring = ''17GB''')) t (setting);
SELECT throws_ok('SET pg_ringctl.' || setting, '55P02', NULL, 'only in the configuration: ' || setting)
  FROM (VALUES ('max_entries = 200'), ('max_shared_memory = ''8MB''')) t (setting);
SELECT results_eq(
    $$SELECT name, unit, min_val, max_val FROM pg_settings WHERE name LIKE 'pg\_ringctl.max\_%' ORDER BY name COLLATE "C"$$,
    $$VALUES ('pg_ringctl.max_entries', NULL, '100', '1073741823'),
             ('pg_ringctl.max_ring', 'kB', '-1', '16777216'),
             ('pg_ringctl.max_shared_memory', 'kB', '4096', '1048576')$$,
    'limits have limits');
SELECT throws_ok('SET pg_ringctl.no_such_thing = 1', '42602');

-- Parameters
SELECT results_eq(
    $$SELECT name, boot_val, context FROM pg_settings WHERE name LIKE 'pg\_ringctl.%' ORDER BY name COLLATE "C"$$,
    $$VALUES ('pg_ringctl.dirty_pages', 'write', 'user'),
             ('pg_ringctl.enabled', 'on', 'sighup'),
             ('pg_ringctl.free_buffers_first', 'on', 'user'),
             ('pg_ringctl.headroom', '2', 'user'),
             ('pg_ringctl.index_read_ahead', 'off', 'user'),
             ('pg_ringctl.index_read_ahead_after', '16', 'user'),
             ('pg_ringctl.max_entries', '5000', 'sighup'),
             ('pg_ringctl.max_ring', '-1', 'superuser'),
             ('pg_ringctl.max_shared_memory', '16384', 'sighup'),
             ('pg_ringctl.mode', 'control', 'user'),
             ('pg_ringctl.scan_ring', '-1', 'user'),
             ('pg_ringctl.scan_sharing', 'on', 'user'),
             ('pg_ringctl.scan_threshold', '-1', 'user'),
             ('pg_ringctl.track', 'on', 'superuser'),
             ('pg_ringctl.use_policies', 'on', 'user'),
             ('pg_ringctl.write_ring', '-1', 'user')$$,
    'parameters, their defaults, and who may set them');
SELECT is_empty($$SELECT name FROM pg_settings WHERE name LIKE 'pg\_ringctl.%' AND short_desc = ''$$,
    'every parameter has a description');
SELECT is_empty(
    $$SELECT name FROM pg_settings
       WHERE name LIKE 'pg\_ringctl.%' AND name <> 'pg_ringctl.track' AND extra_desc IS NULL$$,
    'and says what its special values mean');

-- It moves, and goes.
CREATE SCHEMA elsewhere;
SELECT lives_ok('ALTER EXTENSION pg_ringctl SET SCHEMA elsewhere', 'it moves to another schema');
SELECT lives_ok('SELECT * FROM elsewhere.' || view, view || ' works there')
  FROM unnest('{pg_ringctl_stats, pg_ringctl_stats_info, pg_ringctl_rings, pg_ringctl_ring_slots, pg_ringctl_escapes,
                pg_ringctl_pollution}'::text[]) view;
SELECT lives_ok('DROP EXTENSION pg_ringctl', 'it can be dropped');
SELECT is_empty($$SELECT oid::regproc FROM pg_proc WHERE proname LIKE 'pg\_ringctl%'$$, 'no function is left');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relname LIKE 'pg\_ringctl%'$$, 'no view is left');
SELECT lives_ok('SELECT count(*) FROM public.some_blocks', 'a session that has the library works on');
SELECT lives_ok('CREATE EXTENSION pg_ringctl', 'it can be made again');

SELECT * FROM finish();
ROLLBACK;
