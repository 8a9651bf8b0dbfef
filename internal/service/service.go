// Package service is the contract's three services: it translates between the words
// of the contract and those of the catalog, errors included, and nothing more.
//
// A handler reads as parse, call, convert. What is hard lies elsewhere: money and
// bytes in package catalog, polling in package watch.
package service
