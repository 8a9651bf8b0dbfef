// Package sandbox is a complete catalog that runs in memory or on one file: keys with money, models,
// quotes, renders that take their time, results, limits, and faults on request.
package sandbox
