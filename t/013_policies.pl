# Claims: when a policy is committed, the next scan of the relation or one of its
# descendants follows it, in every session, also inside of a transaction and on a
# standby.  A policy that is not committed, or was rolled back, does not affect
# other sessions.  Policies are part of dumps.  To restore a dump, the library must
# be loaded: in a full dump, CREATE EXTENSION does that.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 2200;
my $sum = sum_to($pages);
my $node = new_node('main', allows_streaming => 1);
my $target = new_node('target');
my $dumps = PostgreSQL::Test::Utils::tempdir();
my $not_loaded = qr/security label provider "pg_ringctl" is not loaded/;

$node->append_conf('postgresql.conf',
	"session_preload_libraries = 'pg_ringctl'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
$target->start;    # where nothing is preloaded

seen_when_committed();
dropped_with_its_table();
seen_inside_of_a_transaction();
of_a_parent();
family_changed_by_another_session();
changed_all_the_time();
changed_by_many();
of_none();
of_a_table_of_others();
rows_add_up($node, 'several sessions');

restored_in_full();
restored_without_the_extension();
restored_without_labels();
after_drop_extension();

on_a_standby();

foreach my $server ($node, $target)
{
	$server->stop;
	log_is_clean($server, $server->name);
}
done_testing();


sub set_policy
{
	my ($session, $table, @settings) = @_;
	my $list = join(', ', map { "'$_'" } $table, @settings);

	$session->query_safe("SELECT pg_ringctl_set_policy($list)");
}

# What the next scan of the table gets, in each of its relations.
sub scan_gets
{
	my ($session, $table, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query_safe("SELECT sum(id) FROM $table"),
		$sum, "$name: the right sum");
	is( $session->query_safe(
			q(
SELECT string_agg(CASE WHEN source = 'policy' THEN ring_kb::text ELSE source END, ' '
                  ORDER BY relid::regclass::text COLLATE "C") FROM pg_ringctl_last_scans())
		),
		$expected,
		"$name: the ring");
}

# What it would get.
sub would_get
{
	my ($session, $table, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $session->query_safe(
			"SELECT CASE WHEN source = 'policy' THEN ring_kb::text ELSE source END FROM pg_ringctl_resolve('$table')"
		),
		$expected,
		"$name: resolved");
}

# Three levels, with half of the numbers in a grandchild.
sub load_tree
{
	my ($table) = @_;
	my $half = $pages / 2;

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE $table (id integer, filler text) PARTITION BY RANGE (id);
CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (1) TO ($half + 1);
CREATE TABLE ${table}_2 PARTITION OF $table FOR VALUES FROM ($half + 1) TO (MAXVALUE) PARTITION BY RANGE (id);
CREATE TABLE ${table}_2_1 PARTITION OF ${table}_2 DEFAULT;
INSERT INTO $table SELECT n, repeat('x', 1900) FROM generate_series(1, $pages) n;)
	);
}

sub seen_when_committed
{
	my $one = session($node);
	my $other = session($node);

	load_table($node, 'plain', $pages);
	scan_gets($other, 'plain', 'chosen', 'no policy');

	set_policy($one, 'plain', '128kB', '0');
	would_get($other, 'plain', '128', 'set');
	scan_gets($other, 'plain', '128', 'set');
	$one->query_safe(
		q(SECURITY LABEL FOR pg_ringctl ON TABLE plain IS 'scan_ring=256kB'));
	scan_gets($other, 'plain', '256', 'set by hand');

	$one->query_safe('BEGIN');
	set_policy($one, 'plain', '512kB', '0');
	scan_gets($one, 'plain', '512', 'own, not committed');
	would_get($other, 'plain', '256', 'not committed');
	scan_gets($other, 'plain', '256', 'not committed');
	$one->query_safe('ROLLBACK');
	would_get($other, 'plain', '256', 'rolled back');
	scan_gets($other, 'plain', '256', 'rolled back');
	scan_gets($one, 'plain', '256', 'own, rolled back');

	$one->query_safe('BEGIN');
	set_policy($one, 'plain', '512kB', '0');
	$one->query_safe('SAVEPOINT s');
	$one->query_safe(q(SELECT pg_ringctl_drop_policy('plain')));
	$one->query_safe('ROLLBACK TO s');
	scan_gets($other, 'plain', '256', 'not yet committed');
	$one->query_safe('COMMIT');
	scan_gets($other, 'plain', '512', 'committed');

	$one->query_safe('SELECT pg_ringctl_drop_all_policies()');
	would_get($other, 'plain', 'chosen', 'dropped');
	scan_gets($other, 'plain', 'chosen', 'dropped');
	$_->quit foreach $one, $other;
}

sub dropped_with_its_table
{
	my $one = session($node);
	my $other = session($node);

	load_table($node, $_, 10), set_policy($one, $_, '128kB', '0')
	  foreach qw(dropped kept);
	$one->query_safe('BEGIN; DROP TABLE dropped');
	start_query($other, 'SELECT pg_ringctl_drop_all_policies()');
	$node->poll_query_until('postgres',
		q(SELECT count(*) > 0 FROM pg_locks WHERE relation = 'dropped'::regclass AND NOT granted)
	) or die 'nobody waits for the table';
	$one->query_safe('COMMIT');
	is(finish_query($other), '1', 'the other policies are dropped');
	is(policies($node, 'postgres'), '', 'and none is left');
	$node->safe_psql('postgres', 'DROP TABLE kept');
	$_->quit foreach $one, $other;
}

# Which holds the table's lock already, and has planned everything.
sub seen_inside_of_a_transaction
{
	my $one = session($node);
	my $other = session($node);

	load_table($node, 'locked', $pages);
	$other->query_safe('SET plan_cache_mode = force_generic_plan');
	$other->query_safe('PREPARE scan AS SELECT sum(id) FROM locked');
	$other->query_safe(
		'PREPARE ring AS SELECT source, ring_kb FROM pg_ringctl_last_scans()'
	);
	$other->query_safe('BEGIN');
	$other->query_safe('EXECUTE scan; EXECUTE ring') foreach 1 .. 2;

	foreach my $ring_kb (128, 256)
	{
		set_policy($one, 'locked', "${ring_kb}kB");
		$other->query_safe('EXECUTE scan');
		is($other->query_safe('EXECUTE ring'),
			"policy|$ring_kb", "inside of a transaction: $ring_kb kB");
	}
	$other->query_safe('COMMIT');
	$_->quit foreach $one, $other;
}

sub of_a_parent
{
	my $one = session($node);
	my $other = session($node);

	load_tree('tree');
	set_policy($one, 'tree', '128kB', '0');
	scan_gets($other, 'tree', '128 128', 'of a parent');
	set_policy($one, 'tree', '256kB', '0');
	would_get($other, 'tree_2_1', '256', 'of a parent, changed');
	scan_gets($other, 'tree', '256 256', 'of a parent, changed');
	set_policy($one, 'tree_2', '64kB', '0');
	scan_gets($other, 'tree', '256 64', 'of a nearer one');
	set_policy($one, 'tree', '512kB', '0');
	scan_gets($other, 'tree', '512 64', 'of the farther one, changed');
	set_policy($one, 'tree_2_1');
	scan_gets($other, 'tree', '512', 'of its own');
	$one->query_safe(q(SELECT pg_ringctl_drop_policy('tree_2_1')));
	scan_gets($other, 'tree', '512 64', 'of its own, dropped');
	$one->query_safe(q(SELECT pg_ringctl_drop_policy('tree_2')));
	scan_gets($other, 'tree', '512 512', 'of the nearer one, dropped');
	$_->quit foreach $one, $other;
}

sub family_changed_by_another_session
{
	my $one = session($node);
	my $other = session($node);
	my $half = $pages / 2;

	load_tree('family');
	set_policy($one, 'family', '128kB', '0');
	scan_gets($other, 'family', '128 128', 'family');
	foreach my $how ('', 'CONCURRENTLY')
	{
		$one->query_safe("ALTER TABLE family DETACH PARTITION family_2 $how");
		would_get($other, 'family_1', '128', "detached $how, the other one");
		would_get($other, 'family_2_1', 'none', "detached $how");
		$one->query_safe(
			"ALTER TABLE family ATTACH PARTITION family_2 FOR VALUES FROM ($half + 1) TO (MAXVALUE)"
		);
		would_get($other, 'family_2_1', '128', "attached after $how");
		scan_gets($other, 'family', '128 128', "attached after $how");
	}
	# into a family of another policy
	$one->query_safe(
		'CREATE TABLE others (id integer, filler text) PARTITION BY RANGE (id)'
	);
	set_policy($one, 'others', '256kB', '0');
	$one->query_safe(
		q(
BEGIN;
ALTER TABLE family DETACH PARTITION family_2;
ALTER TABLE others ATTACH PARTITION family_2 DEFAULT;
));
	$one->query_safe('COMMIT');
	would_get($other, 'family_2_1', '256', 'moved');
	$_->quit foreach $one, $other;
}

# While one session changes a policy, the other's scans keep to their rows, and
# in the end to the last policy.
sub changed_all_the_time
{
	my $one = session($node);
	my $other = session($node);
	my $pid = pid_of($one);
	my $wrong = 0;
	my $scans = 0;

	load_table($node, 'busy', $pages);
	start_query(
		$one, q(
DO $$
BEGIN
    FOR i IN 1 .. 300 LOOP
        IF i % 7 = 0 THEN
            PERFORM pg_ringctl_drop_policy('busy');
        ELSE
            PERFORM pg_ringctl_set_policy('busy', 64 * (i % 4) || 'kB', (i % 3 - 1)::text,
                                          CASE WHEN i % 2 = 0 THEN 'leave' END);
        END IF;
        COMMIT;
    END LOOP;
END $$));
	do
	{
		$wrong++
		  if $other->query_safe('SELECT sum(id) FROM busy') != $sum;
	} while (
		++$scans < 10
		|| $other->query_safe(
			"SELECT state FROM pg_stat_activity WHERE pid = $pid") ne 'idle');
	finish_query($one);
	is($wrong, 0, 'changed all the time: the right sums');
	is($one->{stderr}, '', 'changed all the time: no error');
	set_policy($one, 'busy', '192kB', '0');
	scan_gets($other, 'busy', '192', 'changed all the time, the last one');
	$_->quit foreach $one, $other;
}

# All change policies of a tree, and scan it.
sub changed_by_many
{
	my $other = session($node);

	load_tree('many');
	scan_gets($other, 'many', '', 'before many');
	$node->pgbench(
		'--no-vacuum --client=4 --jobs=2 --transactions=50',
		0,
		[qr{processed: 200/200}],
		[qr{^$}],
		'changed by many: every scan gets its rows',
		{
			'013_changed_by_many' => qq(
\\set kb random(1, 8) * 64
SELECT pg_ringctl_set_policy(format('many%s', (ARRAY['', '_1', '_2', '_2_1'])[1 + :client_id]), :kb || 'kB', '0');
SELECT 1 / (sum(id) = $sum)::integer FROM many;
SELECT pg_ringctl_drop_policy('many_1');
SELECT 1 / (sum(id) = $sum)::integer FROM many;
)
		});
	$node->safe_psql(
		'postgres', q(
SELECT pg_ringctl_drop_policy('many_2'), pg_ringctl_drop_policy('many_2_1');
SELECT pg_ringctl_set_policy('many', '64kB', '0')));
	scan_gets($other, 'many', '64 64', 'after many');
	$other->quit;
}

# As long as there is no policy, what others do to other relations makes no
# session search pg_seclabel again; but a policy is seen at once.
sub of_none
{
	my $session;
	my $other;
	my $before;
	my $searches = sub {
		$session->query_safe('SELECT pg_stat_force_next_flush()');
		return $session->query_safe(
			q(SELECT seq_scan FROM pg_stat_sys_tables WHERE relname = 'pg_seclabel')
		);
	};

	$node->safe_psql('postgres', 'CREATE DATABASE without_policies');
	$node->safe_psql('without_policies', 'CREATE EXTENSION pg_ringctl');
	$node->safe_psql('without_policies',
		"CREATE TABLE small AS SELECT 1 AS id; CREATE TABLE plain AS SELECT n AS id, repeat('x', 1900) AS filler FROM generate_series(1, $pages) n"
	);
	$session = session($node, 'without_policies');
	$other = session($node, 'without_policies');
	$session->query_safe('SELECT id FROM small');
	$session->query_safe('SELECT id FROM small');
	$before = $searches->();

	for (my $i = 0; $i < 20; $i++)
	{
		$other->query_safe(
			"CREATE TEMP TABLE passing_$i (id integer); ANALYZE small; SECURITY LABEL FOR pg_ringctl ON TABLE small IS NULL"
		);
		$session->query_safe('SELECT id FROM small');
	}
	is($searches->() - $before, 0, 'no policy: nobody searches again');
	set_policy($other, 'plain', '128kB', '0');
	scan_gets($session, 'plain', '128', 'the first policy');
	$_->quit foreach $session, $other;

	# The table with the only policy is dropped, and comes back.
	foreach my $back ('ROLLBACK', 'ROLLBACK TO s; COMMIT')
	{
		$session = session($node, 'without_policies');
		$session->query_safe(
			"BEGIN; SAVEPOINT s; DROP TABLE plain; SELECT id FROM small; $back"
		);
		scan_gets($session, 'plain', '128', "the only policy, $back");
		$session->quit;
	}
	$node->safe_psql('postgres', 'DROP DATABASE without_policies');
}

# Who doesn't own it can't set its policy, nor does he wait for its lock, in which
# others would wait for him.
sub of_a_table_of_others
{
	my $owner = session($node);
	my $stranger = session($node);

	load_table($node, 'not_his', 10);
	$node->safe_psql('postgres', 'CREATE ROLE stranger');
	$owner->query_safe(
		'BEGIN; LOCK TABLE not_his IN SHARE UPDATE EXCLUSIVE MODE');
	$stranger->query_safe("SET ROLE stranger; SET lock_timeout = '1s'");
	fails(
		$stranger,
		"SELECT pg_ringctl_set_policy('not_his', '64kB')",
		qr/must be owner of table not_his/,
		"a policy of somebody else's table");
	fails(
		$stranger,
		"SELECT pg_ringctl_drop_policy('not_his')",
		qr/must be owner of table not_his/,
		'and to drop it');
	$_->quit foreach ($owner, $stranger);
}

# The policies of a database.
sub policies
{
	my ($server, $database) = @_;

	return $server->safe_psql($database,
		'SELECT schemaname, relname, scan_ring, scan_threshold, dirty_pages FROM pg_ringctl_policies ORDER BY 1, 2'
	);
}

sub labels
{
	my ($server, $database) = @_;

	return $server->safe_psql($database,
		'SELECT objtype, objname, label FROM pg_seclabels ORDER BY 2');
}

# A database with a policy of every kind of relation.
sub create_source
{
	my ($database) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql(
		$database, q(
CREATE EXTENSION pg_ringctl;
CREATE SCHEMA "Some place";
CREATE TABLE alone AS SELECT generate_series(1, 10) AS id;
CREATE TABLE without AS SELECT 1 AS id;
CREATE TABLE "Some place"."By hand" (id integer);
CREATE TABLE parent (id integer) PARTITION BY LIST (id);
CREATE TABLE child PARTITION OF parent DEFAULT;
CREATE MATERIALIZED VIEW matview AS SELECT * FROM alone;
CREATE TABLE keyed (id integer PRIMARY KEY, filler text);
CREATE MATERIALIZED VIEW grouped AS SELECT id, filler FROM keyed GROUP BY id;
SELECT pg_ringctl_set_policy('alone', '128kB', '0', 'leave');
SECURITY LABEL FOR pg_ringctl ON TABLE "Some place"."By hand" IS ' Scan_Ring = 1 MB ';
SELECT pg_ringctl_set_policy('parent', NULL, '16MB');
SELECT pg_ringctl_set_policy('child');
SELECT pg_ringctl_set_policy('matview', '0', '-1', 'write');
SELECT pg_ringctl_set_policy('grouped', '64kB');));
}

sub dump_of
{
	my ($name, $database, @options) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->command_ok(
		[
			'pg_dump', @options, '--file', "$dumps/$name",
			'--dbname', $database
		],
		"dump: $name");
	return "$dumps/$name";
}

# How to restore a dump in plain format, and one that is not.
sub with_psql
{
	my ($database, $dump, @options) = @_;

	$target->safe_psql('postgres', "CREATE DATABASE $database");
	return [
		'psql', '--no-psqlrc', '--quiet', '--set',
		'ON_ERROR_STOP=1', @options, '--dbname', $database,
		'--file', $dump
	];
}

sub with_pg_restore
{
	my ($database, $dump, @options) = @_;

	$target->safe_psql('postgres', "CREATE DATABASE $database");
	return [
		'pg_restore', '--exit-on-error', @options,
		'--dbname', $database, $dump
	];
}

sub restored_in_full
{
	create_source('source');
	my $plain = dump_of('plain.sql', 'source');
	my $custom = dump_of('custom', 'source', '--format=custom');
	my $expected = policies($node, 'source');

	is(scalar(split(/\n/, $expected)), 6, 'policies to dump');
	$target->command_ok(with_psql('plain', $plain), 'restore: plain');
	$target->command_ok(with_psql('single', $plain, '--single-transaction'),
		'restore: in one transaction');
	$target->command_ok(with_pg_restore('custom', $custom),
		'restore: custom');
	# What depends on a key is made by other sessions, which have not loaded it.
	$target->command_fails_like(
		with_pg_restore('jobs_alone', $custom, '--jobs=2'),
		$not_loaded, 'restore: by two jobs, not loaded');
	{
		local $ENV{PGOPTIONS} = '-c session_preload_libraries=pg_ringctl';
		$target->command_ok(with_pg_restore('jobs', $custom, '--jobs=2'),
			'restore: by two jobs');
	}
	foreach my $database (qw(plain single custom jobs))
	{
		is(policies($target, $database), $expected, "policies of $database");
		is( labels($target, $database),
			labels($node, 'source'),
			"labels of $database");
	}
	# twice over is no difference
	$target->command_ok(
		[
			'pg_restore', '--exit-on-error',
			'--clean', '--if-exists',
			'--dbname', 'custom',
			$custom
		],
		'restore: over the old one');
	is(policies($target, 'custom'), $expected, 'policies restored again');
}

# A dump of a table has no CREATE EXTENSION.
sub restored_without_the_extension
{
	my $plain = dump_of('table.sql', 'source', '--table=alone');
	my $custom =
	  dump_of('table', 'source', '--table=alone', '--format=custom');
	my $exists = q(SELECT to_regclass('alone') IS NOT NULL);
	my $label =
	  'table|alone|scan_ring=128kB, scan_threshold=0, dirty_pages=leave';

	$target->command_fails_like(with_psql('table_plain', $plain),
		$not_loaded, 'restore of a table: not loaded');
	$target->command_fails_like(
		with_psql('table_single', $plain, '--single-transaction'),
		$not_loaded, 'restore of a table: not loaded, in one transaction');
	is($target->safe_psql('table_single', $exists), 'f', 'nothing is left');
	$target->command_fails_like(with_pg_restore('table_custom', $custom),
		$not_loaded, 'restore of a table: not loaded, by pg_restore');

	local $ENV{PGOPTIONS} = '-c session_preload_libraries=pg_ringctl';
	$target->command_ok(with_psql('loaded_plain', $plain),
		'restore of a table: loaded');
	is(labels($target, 'loaded_plain'), $label, 'its label is there');
	$target->command_ok(
		with_pg_restore('loaded_custom', $custom, '--jobs=2'),
		'restore of a table: loaded, by pg_restore');
	is(labels($target, 'loaded_custom'), $label, 'its label is there, too');
	$target->safe_psql('loaded_plain', 'CREATE EXTENSION pg_ringctl');
	is(policies($target, 'loaded_plain'),
		'public|alone|128kB|0|leave',
		'it is a policy as soon as there are policies');
}

sub restored_without_labels
{
	my $plain =
	  dump_of('bare.sql', 'source', '--table=alone', '--no-security-labels');
	my $exists = 'SELECT count(*) FROM alone';

	$target->command_ok(with_psql('bare_plain', $plain),
		'dumped without labels');
	$target->command_ok(
		with_pg_restore(
			'bare_custom', "$dumps/table", '--no-security-labels'),
		'restored without labels');
	foreach my $database (qw(bare_plain bare_custom))
	{
		is($target->safe_psql($database, $exists), '10', "rows of $database");
		is(labels($target, $database), '', "no labels in $database");
	}
}

# Labels are not the extension's: they stay, and so does the need of a library
# wherever they are restored.
sub after_drop_extension
{
	my $labels = labels($node, 'source');

	my $warning;
	$node->psql(
		'source',
		'SET log_min_messages = fatal; DROP EXTENSION pg_ringctl',
		stderr => \$warning);
	like(
		$warning,
		qr/WARNING:  6 policies stay behind as security labels\n.*\nHINT:  .*SELECT pg_ringctl_drop_all_policies\(\) before/,
		'DROP EXTENSION warns');
	is(labels($node, 'source'), $labels, 'DROP EXTENSION leaves the labels');
	my $left = dump_of('left.sql', 'source');
	$target->command_fails_like(with_psql('left_there', $left),
		$not_loaded, 'DROP EXTENSION: its dump needs the library');
	{
		local $ENV{PGOPTIONS} = '-c session_preload_libraries=pg_ringctl';
		$target->command_ok(with_psql('left_loaded', $left),
			'DROP EXTENSION: its dump, with the library');
		is(labels($target, 'left_loaded'), $labels, 'has all labels');
	}
	# As docs/operations.md says, where the library is there, and where it is not.
	$target->safe_psql('plain',
		'SET log_min_messages = fatal; DROP EXTENSION pg_ringctl');
	$target->safe_psql(
		'plain', q(
LOAD 'pg_ringctl';
SELECT format('SECURITY LABEL FOR pg_ringctl ON %s %s IS NULL', objtype, objname)
  FROM pg_seclabels WHERE provider = 'pg_ringctl' \gexec));
	is(labels($target, 'plain'),
		'', 'DROP EXTENSION: with the library, they can be taken off');
	$target->safe_psql('left_loaded',
		"DELETE FROM pg_seclabel WHERE provider = 'pg_ringctl'");
	is(labels($target, 'left_loaded'),
		'', 'DROP EXTENSION: without the library, they can be deleted');

	$node->safe_psql('source', 'CREATE EXTENSION pg_ringctl');
	is(scalar(split(/\n/, policies($node, 'source'))),
		6, 'CREATE EXTENSION finds them again');
	is($node->safe_psql('source', 'SELECT pg_ringctl_drop_all_policies()'),
		'6', 'all policies are dropped');
	$node->safe_psql('source', q(SELECT pg_ringctl_set_policy('alone', 0)));
	# From 19 on, strings always conform.
	$node->psql(
		'source',
		'SET log_min_messages = fatal; '
		  . (
			$node->safe_psql('source', 'SHOW server_version_num') < 190000
			? 'SET standard_conforming_strings = off; '
			: '')
		  . 'DROP EXTENSION pg_ringctl',
		stderr => \$warning);
	like(
		$warning,
		qr/^[^\n]*WARNING:  1 policy stays behind as a security label\n.*\nHINT:  .* \\gexec$/,
		'DROP EXTENSION warns of one');
	$node->safe_psql('source',
		'CREATE EXTENSION pg_ringctl; SELECT pg_ringctl_drop_all_policies()');
	$node->psql('source', 'DROP EXTENSION pg_ringctl', stderr => \$warning);
	is($warning, '', 'DROP EXTENSION does not warn without policies');
	is(labels($node, 'source'), '', 'then DROP EXTENSION leaves none');
	$target->command_ok(
		with_psql('nothing_left', dump_of('clean.sql', 'source')),
		'and its dump needs nothing');
}

sub on_a_standby
{
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	load_table($node, 'streamed', $pages);
	load_tree('streamed_tree');
	$node->backup('backup');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->start;
	$node->wait_for_replay_catchup($standby);

	my $session = session($standby);
	my $on_primary = session($node);
	scan_gets($session, 'streamed', 'chosen', 'standby, no policy');
	would_get($session, 'streamed_tree_1', 'none',
		'standby, no policy of a tree');
	foreach my $ring_kb (128, 256)
	{
		set_policy($on_primary, $_, "${ring_kb}kB", '0')
		  foreach qw(streamed streamed_tree);
		$node->wait_for_replay_catchup($standby);
		would_get($session, 'streamed', $ring_kb, "standby, $ring_kb kB");
		scan_gets($session, 'streamed', $ring_kb, "standby, $ring_kb kB");
		scan_gets(
			$session, 'streamed_tree',
			"$ring_kb $ring_kb",
			"standby, $ring_kb kB of a tree");
	}

	foreach my $query (
		q(SELECT pg_ringctl_set_policy('streamed', '64kB')),
		q(SELECT pg_ringctl_drop_policy('streamed')),
		q(SELECT pg_ringctl_drop_all_policies()),
		q(SECURITY LABEL FOR pg_ringctl ON TABLE streamed IS 'scan_ring=0'))
	{
		fails(
			$session, $query,
			qr/read-only transaction|during recovery/,
			"standby: refused: $query");
	}
	scan_gets($session, 'streamed', '256', 'standby, as before');
	fails(
		$session,
		'SELECT pg_ringctl_drop_all_policies()',
		qr/cannot execute pg_ringctl_drop_all_policies\(\) during recovery/,
		'standby: refused in its own name');

	$on_primary->query_safe('SELECT pg_ringctl_drop_all_policies()');
	$node->wait_for_replay_catchup($standby);
	scan_gets($session, 'streamed', 'chosen', 'standby, dropped');
	would_get($session, 'streamed_tree_1', 'none',
		'standby, dropped of a tree');
	fails(
		$session,
		'SELECT pg_ringctl_drop_all_policies()',
		qr/cannot execute pg_ringctl_drop_all_policies\(\) during recovery/,
		'standby: refused also where there are none');
	$_->quit foreach $session, $on_primary;
	rows_add_up($standby, 'standby');
	$standby->stop;
	log_is_clean($standby, 'standby');
}
