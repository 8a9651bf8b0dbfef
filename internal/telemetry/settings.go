package telemetry

// MeasureSettings measures at each collection how much of a setting can't be taken over, by setting, until stop is called.
func MeasureSettings(broken func() map[string]int) (stop func(), err error) {
	return measured(Settings, func(value observe) {
		for name, n := range broken() {
			value("easel.settings.broken", float64(n), setting.is(name))
		}
	})
}
