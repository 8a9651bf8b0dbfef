package cli

// The end of the help of each command: what it does that its flags do not say, and lines
// to copy.

// Help implements kong.HelpProvider.
func (*generateCmd) Help() string {
	return `Every order has an idempotency key, which is told before anything is sent. After a crash, give it to --idempotency-key: what was ordered is not ordered again. Inputs are compared with what the model says of itself before any money moves.

Ctrl-C ends the command and not the render, which stays paid; it says how to pick it up. A second Ctrl-C ends it at once.

Several orders (--count, --from-stdin) go their own ways, at most 1000. Of --count 10, order 7 has the key KEY-7; the key of a line is made of what it says, so that lines may come and go before the rest is picked up. --max-cost holds for each, and --out names a directory. With -o json each order is a line when it is finished. Where the balance or the key is refused, no further order is sent.

Examples:

  easel generate studio/landscape prompt="a calm sea" --max-cost 0.50 --out sea.png
  easel generate studio/haiku prompt=@theme.txt --watch
  easel generate studio/landscape prompt="a calm sea" --count 4 --out pictures/
  easel generate studio/landscape size=640x400 --from-stdin --out pictures/ < orders.txt

where a line of orders.txt is one of:

  prompt="snow on hills" seed=7
  {"prompt": "fog", "size": "640x400"}   (without inputs on the command line)
`
}

// Help implements kong.HelpProvider.
func (*quoteCmd) Help() string {
	return `With -q it prints the price in cents and nothing else.

Examples:

  easel quote studio/landscape prompt="a calm sea" size=640x400
  easel quote studio/haiku --inputs-json '{"prompt": "rain"}' -o json
`
}

// Help implements kong.HelpProvider.
func (*modelCmd) Help() string {
	return `Examples:

  easel model studio/landscape
  easel model studio/landscape -o json
`
}

// Help implements kong.HelpProvider.
func (*getCmd) Help() string {
	return `Examples:

  easel get gen_1
  easel get gen_1 --fresh -o json
`
}

// Help implements kong.HelpProvider.
func (*listCmd) Help() string {
	return `Examples:

  easel list --limit 5
  easel list -q | xargs easel watch
`
}

// Help implements kong.HelpProvider.
func (*waitCmd) Help() string {
	return `It prints the render once, when it is finished, and outlives lost connections. It ends with 7 where the render failed or was refunded.

Examples:

  easel wait gen_1 && easel download gen_1
  easel wait gen_1 --until settled --timeout 15m
`
}

// Help implements kong.HelpProvider.
func (*watchCmd) Help() string {
	return `With -o json each message of the watch is a line. Ending a watch never touches a render.

Examples:

  easel watch gen_1
  easel watch                  # every render of the key, until interrupted
  easel watch gen_1 gen_2 -o json
`
}

// Help implements kong.HelpProvider.
func (*downloadCmd) Help() string {
	return `A file that is there is whole and checked. Run again after an interruption, it goes on where it was.

Examples:

  easel download gen_1
  easel download gen_1 --wait 10m --out pictures/
  easel download gen_1 --out - | display
`
}

// Help implements kong.HelpProvider.
func (*deleteCmd) Help() string {
	return `Examples:

  easel delete gen_1
`
}

// Help implements kong.HelpProvider.
func (*Health) Help() string {
	return `Asks grpc.health.v1, for which no key is needed. It ends with 0 where the server serves, with 3 where it knows no such service, and with 6 where it does not serve or is not there, so that it does for a probe.

Examples:

  easel health -q --timeout 2s
  easel health --addr easel.example:443 --tls --service easel.v1.GenerationService
`
}
