// Package fence is for the side of the resource.
package fence

// Token is a fencing token.
type Token uint64
