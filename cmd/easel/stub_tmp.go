package main

import "context"

type demoCmd struct{}

func (demoCmd) Run() error { return nil }

type devCmd struct{}

func (devCmd) Run() error { return nil }

func runFacade(context.Context, *program, *serveCmd, func()) error { return nil }
