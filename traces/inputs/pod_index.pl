#!/usr/bin/perl
# Run by perl over its own documentation: headings, cross references and code samples of each
# document, and an index of terms, printed as a report.
use strict;
use warnings;

my ( %index, @documents );
for my $path (@ARGV) {
    my ($name) = $path =~ m{([^/]+)\.pod$};
    open my $file, '<', $path or die "$path: $!\n";
    local $/ = '';    # by paragraphs
    my %document = ( name => $name, headings => [], links => {}, code => 0 );
    while ( my $paragraph = <$file> ) {
        chomp $paragraph;
        if ( my ( $level, $title ) = $paragraph =~ /^=head(\d)\s+(.*)/s ) {
            push @{ $document{headings} }, { level => $level, title => $title };
        }
        elsif ( $paragraph =~ /^\s+\S/ ) {
            $document{code} += () = $paragraph =~ /\n/g;
        }
        else {
            $document{links}{$1}++ while $paragraph =~ /L<+(?:[^|<>]*\|)?([^<>|]+)>/g;
            push @{ $index{ lc $1 } }, [ $name, $. ] while $paragraph =~ /[CXIF]<([^<>]{2,30})>/g;
            for my $word ( split /\W+/, lc $paragraph ) {
                $document{words}{$word}++ if length $word > 4;
            }
        }
    }
    push @documents, \%document;
}

for my $document ( sort { $a->{name} cmp $b->{name} } @documents ) {
    my @headings = @{ $document->{headings} };
    printf "%s: %d headings, %d lines of code\n", $document->{name}, scalar @headings,
        $document->{code};
    print '  ' x $_->{level}, $_->{title} =~ s/\s+/ /gr, "\n" for @headings;
    my $words = $document->{words} // {};
    my @top   = ( sort { $words->{$b} <=> $words->{$a} || $a cmp $b } keys %$words )[ 0 .. 9 ];
    print '  words: ', join( ', ', map {"$_ ($words->{$_})"} grep {defined} @top ), "\n";
    print '  see:   ', join( ', ', sort keys %{ $document->{links} } ), "\n";
}
for my $term ( sort keys %index ) {
    my %seen;
    my @places = grep { !$seen{$_}++ } map {"$_->[0]:$_->[1]"} @{ $index{$term} };
    print "$term\t@places\n";
}
