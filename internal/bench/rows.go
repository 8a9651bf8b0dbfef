package main

// rows is the table. Reach and dream are ratios, or figures where there is nothing beside.
var rows = []row{
	{name: "P1", title: "upstream requests for a change, 10 watchers, 100 renders", unit: "requests", reach: 1.0, dream: 0.2, once: true, baseName: "bare", base: requestsOfAChange(setting{bare: true, alone: true}), ours: requestsOfAChange(setting{}), figure: true},
	{name: "P2", title: "upstream requests, 1,000 watchers that come back ÷ one", unit: "requests", reach: 1.05, dream: 1.01, once: true, baseName: "one watcher", base: requestsOf(1), ours: requestsOf(1000)},
	{name: "P3", title: "memory of an idle watch, 50,000 on 10 connections, traced", unit: "bytes", reach: 0.9, dream: 0.7, baseName: "bare", base: idleWatch(setting{bare: true}), ours: idleWatch(setting{tracing: "always"})},
	{name: "P4", title: "memory of a watched render, 100 a stream ÷ a bare stream", unit: "bytes", reach: 0.05, dream: 0.02, baseName: "bare", base: idleWatch(setting{bare: true}), ours: watchedRender},
	{name: "P5", title: "push to 10,000 watches, p99, traced", unit: "ms", reach: 0.6, dream: 0.3, baseName: "bare", base: pushDelay(setting{bare: true}, false), ours: pushDelay(setting{tracing: "always"}, false)},
	{name: "P6", title: "push of the last state to 10,000 watches, p99, traced", unit: "ms", reach: 0.6, dream: 0.25, baseName: "bare", base: pushDelay(setting{bare: true}, true), ours: pushDelay(setting{tracing: "always"}, true)},
	{name: "P7", title: "most memory for a text of 100 KB to 5,000 watches", unit: "bytes", reach: 0.1, dream: 0.04, baseName: "bare", base: textPeak(setting{bare: true}), ours: textPeak(setting{tracing: "always"})},
	{name: "P8", title: "push p99 with a stuck watcher among 10,000 ÷ without", unit: "ms", reach: 1.1, dream: 1.02, baseName: "without", base: stuckWatcher(false), ours: stuckWatcher(true)},
	{name: "P9", title: "CPU of the server for a unary call, all on, all traced", unit: "µs", reach: 1.2, dream: 0.85, baseName: "bare", base: callCPU(setting{bare: true}), ours: callCPU(setting{tracing: "always"})},
	{name: "P10", title: "unary calls, 16 callers, all on, 1 % traced", unit: "calls/s", least: true, reach: 0.95, dream: 1.15, baseName: "bare", base: callRate(setting{bare: true}), ours: callRate(setting{tracing: "1%"})},
	{name: "P11", title: "unary calls ÷ asking the catalog itself, 1 % traced", unit: "calls/s", least: true, reach: 0.42, dream: 0.6, baseName: "direct", base: directRate, ours: callRate(setting{tracing: "1%"})},
	{name: "P12", title: "download ÷ a plain proxy of net/http", unit: "MB/s", least: true, reach: 0.8, dream: 1, baseName: "proxy", base: fetchRate(setting{bare: true}, "/proxy/{id}"), ours: downloadRate(setting{tracing: "always"})},
	{name: "P13", title: "CPU of the server for a GB of download", unit: "s", reach: 0.6, dream: 0.42, baseName: "bare", base: downloadCPU(setting{bare: true}), ours: downloadCPU(setting{tracing: "always"})},
	{name: "P14", title: "live heap of a stalled download", unit: "bytes", reach: 0.15, dream: 0.075, baseName: "bare", base: stalled(setting{bare: true}), ours: stalled(setting{tracing: "always"})},
	{name: "P15a", title: "REST download ÷ HttpBody through the stock gateway", unit: "MB/s", least: true, reach: 2, dream: 2.5, baseName: "gateway", base: fetchRate(setting{bare: true}, "/v1/generations/{id}/content"), ours: fetchRate(setting{tracing: "always"}, "/v1/generations/{id}/content")},
	{name: "P15b", title: "REST download ÷ asking the catalog itself", unit: "MB/s", least: true, reach: 0.4, dream: 0.47, baseName: "direct", base: fetchRate(setting{bare: true}, ""), ours: fetchRate(setting{tracing: "always"}, "/v1/generations/{id}/content")},
	{name: "P16", title: "CPU to learn a render's state, list of 100 ÷ one by one", unit: "µs", reach: 0.15, dream: 0.04, baseName: "one by one", base: learnCPU("alone"), ours: learnCPU("list")},
	{name: "P17", title: "delay from an answer to its push, p99, 10,000 active", unit: "ms", reach: 2, dream: 0.5, ours: addedDelay},
	{name: "P18a", title: "cold start until all listen", unit: "ms", reach: 100, dream: 100, ours: coldStart},
	{name: "P18b", title: "idle memory", unit: "MB", reach: 40, dream: 40, ours: idleMemory},
	{name: "P18c", title: "the program's file", unit: "MB", reach: 45, dream: 45, once: true, ours: fileSize},
}
