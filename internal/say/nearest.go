package say

import "strings"

// Edits returns the number of bytes to insert, drop, replace or swap with a neighbour to turn a
// into b. Time and memory grow with the product of the lengths, so use it for names written by a
// person, not for input of a stranger.
func Edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// Nearest returns the known name that name is most likely a misspelling of, or "".
func Nearest(name string, known []string) string {
	best, bestEdits := "", min(max(len(name)/3, 1)+1, len(name))
	for _, k := range known {
		if e := Edits(strings.ToLower(name), strings.ToLower(k)); e < bestEdits {
			best, bestEdits = k, e
		}
	}
	return best
}

// DidYouMean returns a hint for a name that is not known: the name that was probably meant, or all of them.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return "known: " + strings.Join(known, ", ")
}
