# Claims: pg_upgrade takes policies along where the new server preloads the library;
# and also where it does not, because to make the extension's functions loads it,
# unless a function or type needs the table, which is made before them.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $old = new_node('old');
my $round = 0;

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
like((run_upgrade(new_node('refused')))[1],
	qr/security label provider "pg_ringctl" is not loaded/,
	'what needs the table comes before the library, if nothing preloads it');
upgrades('with the library preloaded',
	"shared_preload_libraries = 'pg_ringctl'");
done_testing();


# Upgrade the old cluster to this one, of the same server.  Returns whether that
# was done, and what was said.
sub run_upgrade
{
	my ($node) = @_;
	my ($output, $errors);

	chdir($node->basedir) or die "cannot change directory: $!";	# it writes there
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
