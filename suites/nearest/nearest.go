// Package nearest finds the word that was meant where one is not known.
package nearest

// To is the known word that a misspelt one is nearest to; empty if none is near.
func To(word string, known []string) string {
	best, least := "", min(max(2, len(word)/4), (len(word)-1)/2)+1
	for _, k := range known {
		if d := distance([]rune(word), []rune(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint is "; did you mean X?", or nothing.
func Hint(word string, known []string) string {
	if k := To(word, known); k != "" {
		return "; did you mean " + k + "?"
	}
	return ""
}

// distance is how many letters have to be changed, added, left out or swapped with their neighbour
// (optimal string alignment).
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i, x := range a {
		for j, y := range b {
			same := rows[i][j]
			if x != y {
				same++
			}
			rows[i+1][j+1] = min(same, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && x == b[j-1] && a[i-1] == y {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
