# Claims: the session in README.md prints what is shown there, but for the numbers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

# What is shown is 18's, in shared buffers of 128 MB.
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
shared_buffers = 128MB
autovacuum = off
));
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE app');

my @steps = read_session();
cmp_ok(scalar @steps, '>', 15, 'the session is found');
foreach my $step (@steps)
{
	my ($command, $expected) = @$step;

	# Each command has a session of its own, as after \c.
	my ($output, $errors) = run_command(
		[
			'psql', '--no-psqlrc',
			'--dbname' => $node->connstr('app'),
			'--command' => $command
		]);
	is($errors, '', "no complaint: $command");
	is(without_numbers($output), without_numbers($expected), $command);
}
is(leaked('invoices'), 0, 'nothing leaked, in numbers');
$node->stop;
log_is_clean($node, 'README');
done_testing();


# The commands of the section, each with its output.
sub read_session
{
	my $readme = slurp_file("$FindBin::RealBin/../README.md");
	my ($section) = $readme =~ /^## A first session\n(.*?)^## /ms;
	my @found;

	foreach my $line (split(/\n/, $section))
	{
		if ($line =~ /^    app=# (.*)/)
		{
			push @found, [ $1, '' ];
		}
		elsif ($line =~ /^    (.*)/ && @found)
		{
			$found[-1][1] .= "$1\n";
		}
	}
	return grep { $_->[0] ne '\c' } @found;
}

# Numbers depend on the machine, and so does the width of their columns.
sub without_numbers
{
	my ($text) = @_;

	$text =~ s/\d+/N/g;
	$text =~ s/-+/-/g;
	$text =~ s/[ \t]+/ /g;
	$text =~ s/^ | $//mg;
	$text =~ s/\n+/\n/g;
	$text =~ s/\n$//;
	return $text;
}

sub leaked
{
	my ($table) = @_;

	return $node->safe_psql('app',
		"SELECT sum(escapes_dirty + escapes_pinned) FROM pg_ringctl_stats WHERE relname = '$table'"
	);
}
