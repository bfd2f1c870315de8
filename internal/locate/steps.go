package locate

// First returns the locations of the first alternative, in order.
func (e *Expr) First() []Ref { return e.Alternatives()[0] }

// Alternatives returns the locations of each alternative, in order. There is at least one.
func (e *Expr) Alternatives() [][]Ref {
	var all [][]Ref
	for _, alt := range e.alts {
		var refs []Ref
		for _, l := range alt {
			refs = append(refs, l.Ref)
		}
		all = append(all, refs)
	}
	return all
}

// Every is the step into every element of an array.
const Every = "[]"

// Steps returns the steps of the path: keys, array indexes in decimal digits, and Every.
func (p Path) Steps() []string {
	var steps []string
	for _, s := range p.segs {
		steps = append(steps, s.key)
	}
	if p.rest != nil {
		steps = append(append(steps, Every), p.rest.Steps()...)
	}
	return steps
}
