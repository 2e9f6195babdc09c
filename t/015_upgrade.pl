# Claims: pg_upgrade takes policies along where the new server preloads the library.
# It also does so without preloading, because making the extension's functions loads
# the library, unless a function or type needs a table with a policy: such a table is
# made before the extension.  All of this holds where the extension's files are in a
# folder of their own (from 18 on).

use strict;
use warnings FATAL => 'all';

use File::Copy;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $old = new_node('old');
my $round = 0;
my $folder;    # has a copy of the extension's files

$old->start;
$old->safe_psql('postgres', <<'EOS');
CREATE EXTENSION pg_ringctl;
CREATE TABLE archive (id int, pad text) PARTITION BY RANGE (id);
CREATE TABLE archive_1 PARTITION OF archive FOR VALUES FROM (0) TO (1000);
INSERT INTO archive SELECT id, repeat('x', 1000) FROM generate_series(1, 999) id;
SELECT pg_ringctl_set_policy('archive', '256kB', '0');
EOS
$old->stop;
upgrades('as it comes');

$old->start;
$old->safe_psql('postgres', <<'EOS');
CREATE FUNCTION all_of_archive() RETURNS SETOF archive LANGUAGE sql AS 'SELECT * FROM archive';
CREATE TYPE pair AS (a archive, b archive);
EOS
$old->stop;
like(
	(run_upgrade(new_node('refused')))[1],
	qr/security label provider "pg_ringctl" is not loaded/,
	'what needs the table comes before the library, if nothing preloads it');
upgrades('with the library preloaded',
	"shared_preload_libraries = 'pg_ringctl'");

SKIP:
{
	skip 'extensions are in one folder only before 18', 5
	  if $old->pg_version < 18;
	my $apart = files_apart();

	$old->append_conf('postgresql.conf', $apart);
	upgrades('in a folder of its own',
		"$apart\nshared_preload_libraries = 'pg_ringctl'");
	$old->start;
	is( $old->safe_psql(
			'postgres',
			"SELECT comment FROM pg_available_extensions WHERE name = 'pg_ringctl'"
		),
		'apart',
		'in a folder of its own: the extension is the one there');
	$old->stop;
}

# Before 18 the scripts of an update have to be in the server's own folder.
$folder = $old->config_data('--sharedir') if $old->pg_version < 18;
SKIP:
{
	skip 'the folder of extensions may not be written to', 4
	  if !-w "$folder/extension";
	$old->start;
	updates();
	$old->stop;
}
done_testing();

# Before 18 these files are in the server's own folder, also after a failure.
END
{
	unlink glob("$folder/extension/pg_ringctl--1.*--1.*.sql") if $folder;
}


# ALTER EXTENSION UPDATE: from 1.0 to an example of a 1.1, which has another function
# and another column of a view.
sub updates
{
	write_file("$folder/extension/pg_ringctl--1.0--1.1.sql", <<'EOS');
\echo Use "ALTER EXTENSION pg_ringctl UPDATE TO '1.1'" to load this file. \quit
CREATE FUNCTION pg_ringctl_number_of_policies() RETURNS bigint
LANGUAGE sql STABLE BEGIN ATOMIC SELECT count(*) FROM pg_ringctl_policies; END;
CREATE OR REPLACE VIEW pg_ringctl_stats_info AS
    SELECT *, '1.1' AS version FROM pg_ringctl_stats_info();
EOS
	is( $old->safe_psql(
			'postgres', q(
ALTER EXTENSION pg_ringctl UPDATE TO '1.1';
SELECT extversion FROM pg_extension WHERE extname = 'pg_ringctl';
SELECT version, stats_reset IS NOT NULL FROM pg_ringctl_stats_info;
SELECT pg_ringctl_number_of_policies();
SELECT count(*) FROM pg_ringctl_prewarm('archive_1') WHERE blocks > 0)),
		"1.1\n1.1|t\n1\n1",
		'an update: what is new is there, and what was there is');

	# A session that has loaded the library before it was replaced by the one of 1.2:
	# of that, there are the objects only.
	write_file("$folder/extension/pg_ringctl--1.1--1.2.sql", <<'EOS');
\echo Use "ALTER EXTENSION pg_ringctl UPDATE TO '1.2'" to load this file. \quit
DROP VIEW pg_ringctl_stats_info;
DROP FUNCTION pg_ringctl_stats_info;
CREATE FUNCTION pg_ringctl_stats_info(OUT entries bigint, OUT entries_dropped bigint,
    OUT escapes_dropped bigint, OUT rings_not_shown bigint, OUT stats_reset timestamptz,
    OUT more bigint)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
EOS
	my $session = session($old);
	$session->query_safe("ALTER EXTENSION pg_ringctl UPDATE TO '1.2'");
	fails(
		$session,
		'SELECT * FROM pg_ringctl_stats_info()',
		qr/ERROR:  SQL objects of extension "pg_ringctl" are of another version than its library.*HINT:  Start a new session/s,
		'an update: a session with the older library says so');
	$session->quit;

	is( $old->safe_psql(
			'postgres',
			"DROP EXTENSION pg_ringctl; SELECT count(*) FROM pg_proc WHERE proname ~ '^pg_ringctl'"
		),
		0,
		'an update: all of it belongs to the extension');
}


# A copy of the extension's files in a folder of their own: the settings with which a
# server finds these first.  The other libraries, as that of PL/pgSQL, stay where they
# are.
sub files_apart
{
	my $libraries = $old->config_data('--pkglibdir');
	my $share = $old->config_data('--sharedir');

	$folder = PostgreSQL::Test::Utils::tempdir();
	mkdir("$folder/extension") or die "cannot make a folder: $!";
	copy($_, $folder)
	  or die "cannot copy $_: $!"
	  foreach glob("$libraries/pg_ringctl.*");
	copy($_, "$folder/extension")
	  or die "cannot copy $_: $!"
	  foreach glob("$share/extension/pg_ringctl[-.]*");
	my $control = "$folder/extension/pg_ringctl.control";
	write_file($control,
		slurp_file($control) =~ s/^comment = .*$/comment = 'apart'/mr);
	return
	  "dynamic_library_path = '$folder:\$libdir'\nextension_control_path = '$folder:\$system'";
}


# Upgrade the old cluster to this one, of the same server.  Returns whether that
# was done, and what was said.
sub run_upgrade
{
	my ($node) = @_;
	my ($output, $errors);

	chdir($node->basedir)
	  or die "cannot change directory: $!";    # it writes there
	my $done = run_log(
		[
			'pg_upgrade', '--no-sync',
			'--old-datadir' => $old->data_dir,
			'--new-datadir' => $node->data_dir,
			'--old-bindir' => $old->config_data('--bindir'),
			'--new-bindir' => $node->config_data('--bindir'),
			'--socketdir' => $node->host,
			'--old-port' => $old->port,
			'--new-port' => $node->port
		],
		'>' => \$output,
		'2>' => \$errors);
	return ($done, "$output$errors" . said($node));
}

sub upgrades
{
	my ($how, $conf) = @_;
	my $node = new_node('new' . ++$round);

	$node->append_conf('postgresql.conf', $conf) if $conf;
	my ($done, $said) = run_upgrade($node);
	ok($done, "upgrade $how") or diag($said);

	$node->start;
	is( $node->safe_psql(
			'postgres',
			q(
LOAD 'pg_ringctl';
SELECT scan_ring, scan_threshold FROM pg_ringctl_policies;
SELECT sum(id) FROM archive;
SELECT source, ring_kb FROM pg_ringctl_last_scans())
		),
		"256kB|0\n499500\npolicy|256",
		"$how: the policy is there, and scans go by it");
	$node->stop;
	log_is_clean($node, $how);
}

# What pg_upgrade left in its logs, if it failed.
sub said
{
	my ($node) = @_;

	return join('',
		map { slurp_file($_) }
		  glob($node->data_dir . '/pg_upgrade_output.d/*/log/*.log'));
}

sub write_file
{
	my ($name, $text) = @_;

	open(my $file, '>', $name) or die "cannot write $name: $!";
	print $file $text;
	close($file);
}
