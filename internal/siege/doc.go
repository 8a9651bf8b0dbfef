// Package siege attacks the real program in its own process, as described in the fault catalogue (A4, D1 to D13, L9).
// The process has the memory limits of the chart, and a neighbor calls it during the attack. `make test-attacks` runs
// the attacks at full size, one at a time, and compares the neighbor's times with those without an attack.
package siege
