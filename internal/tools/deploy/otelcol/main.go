// Otelcol is the OpenTelemetry Collector with only the components that deploy/otel/collector.yaml uses. Tests build this
// program, which takes 90 seconds, and therefore need no container image.
package main

import (
	"errors"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "OpenTelemetry Collector for the tests of Easel"},
		Factories: parts,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{envprovider.NewFactory(), fileprovider.NewFactory()},
		}},
	})
	if command.Execute() != nil { // Execute has already printed the error
		os.Exit(1)
	}
}

func parts() (otelcol.Factories, error) {
	receivers, err1 := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	processors, err2 := otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory(), batchprocessor.NewFactory())
	exporters, err3 := otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory())
	return otelcol.Factories{
		Receivers: receivers, Processors: processors, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory(),
	}, errors.Join(err1, err2, err3)
}
