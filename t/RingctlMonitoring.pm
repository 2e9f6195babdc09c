# What the tests of monitoring/ share: the files there, and the servers and loads to
# try them on.

package RingctlMonitoring;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(
  monitoring_folder
  postgres_exporter_queries
  sql_exporter_queries
  pgwatch_queries
  create_monitor
);

sub monitoring_folder
{
	return "$FindBin::RealBin/"
	  . ($FindBin::RealBin =~ /monitoring$/ ? '.' : '../monitoring');
}

sub read_yaml
{
	my ($file) = @_;

	require CPAN::Meta::YAML;
	return CPAN::Meta::YAML->read_string(
		slurp_file(monitoring_folder() . "/$file"))->[0];
}

# Each of these gives: name => { sql, labels => [...], values => [...] }.

sub postgres_exporter_queries
{
	my $file = read_yaml('postgres_exporter.yaml');
	my %queries;

	foreach my $name (keys %$file)
	{
		my %columns = map { %$_ } @{ $file->{$name}{metrics} };
		my @labels = grep { $columns{$_}{usage} eq 'LABEL' } keys %columns;
		my @values = grep { $columns{$_}{usage} ne 'LABEL' } keys %columns;

		$queries{$name} = {
			sql => $file->{$name}{query},
			labels => [ sort @labels ],
			values => [ sort @values ],
			counters =>
			  [ sort grep { $columns{$_}{usage} eq 'COUNTER' } @values ]
		};
	}
	return \%queries;
}

sub sql_exporter_queries
{
	my %queries;

	foreach my $query (map { @{ $_->{queries} } }
		@{ read_yaml('sql_exporter.yml')->{jobs} })
	{
		$queries{ $query->{name} } = {
			sql => $query->{query},
			labels => [ sort @{ $query->{labels} } ],
			values => [ sort @{ $query->{values} } ]
		};
	}
	return \%queries;
}

# Its labels are the columns whose names begin with tag_.
sub pgwatch_queries
{
	my $metrics = read_yaml('pgwatch.yaml')->{metrics};

	return {
		map {
			$_ => {
				sql => $metrics->{$_}{sqls}{17},
				gauges => [ sort @{ $metrics->{$_}{gauges} // [] } ]
			}
		} keys %$metrics
	};
}

# A role that may see what others do, and nothing else.
sub create_monitor
{
	my ($node) = @_;

	$node->safe_psql('postgres',
		'CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
}

1;
