// Package siege attacks the real program in a process of its own, as the fault catalogue has it (A4, D1 to D13, L9),
// with the limits of memory that the chart gives it, while a neighbour calls. `make test-attacks` makes the attacks at their
// full size, one at a time, and compares the neighbour's times with quiet ones.
package siege
