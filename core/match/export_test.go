package match

// Bare tells whether no node is left.
func (t *Tree[V]) Bare() bool {
	return t.root.empty()
}
