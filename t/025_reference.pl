# Claims: docs/reference.md has every parameter, function, view and column that there
# is, with what the catalog says of them.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $root = "$FindBin::RealBin/..";
my $node = new_node('main');

$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
my ($page, $errors) = run_command(
	[
		'psql', '--no-psqlrc', '--quiet',
		'--file' => "$root/dev/reference.sql",
		'--dbname' => $node->connstr('postgres')
	]);
is($errors, '', 'dev/reference.sql works');
is( $page,
	slurp_file("$root/docs/reference.md") =~ s/\n\z//r,
	'docs/reference.md is what it prints');
$node->stop;
done_testing();
