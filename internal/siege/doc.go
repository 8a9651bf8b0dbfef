// Package siege attacks the real program, which runs in its own process with the memory limits of the Helm chart. The
// attacks include two faults from the table in cmd/easel/faults_test.go: A4 (streams with many invented IDs) and L9
// (HTTP/2 attacks).
//
// During an attack, a second client, called the neighbor, sends ordinary calls. `make test-attacks` runs the attacks
// at full size, one at a time, and compares the durations of the neighbor's calls with and without the attack.
package siege
