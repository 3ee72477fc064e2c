# Run by gawk over prose: word frequencies, a concordance of the rarer words, and a table of which
# word follows which.
function clean(word) {
    gsub(/[^a-z']/, "", word)
    return word
}

BEGIN { FS = "[ \t]+" }

FNR == 1 { file = FILENAME; sub(/.*\//, "", file) }

NF && !/^=/ {
    for (i = 1; i <= NF; i++) {
        word = clean(tolower($i))
        if (length(word) < 3) { previous = ""; continue }
        count[word]++
        if (count[word] <= 5)
            where[word] = where[word] (where[word] == "" ? "" : ", ") file ":" FNR
        if (previous != "")
            follows[previous][word]++
        previous = word
    }
}

END {
    PROCINFO["sorted_in"] = "@ind_str_asc"
    for (word in count)
        if (count[word] >= 20) {
            best = ""
            for (next_word in follows[word])
                if (best == "" || follows[word][next_word] > follows[word][best])
                    best = next_word
            printf "%-20s %6d  then %s\n", word, count[word], best
        } else if (count[word] <= 2)
            printf "%-20s %6d  %s\n", word, count[word], where[word]
    n = asorti(count, sorted, "@val_num_desc")
    for (i = 1; i <= n && i <= 100; i++)
        printf "%3d %s %d\n", i, sorted[i], count[sorted[i]]
}
