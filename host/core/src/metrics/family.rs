//! A family of metrics: a name, a help text, labels, and one series for each combination of label
//! values.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, HistogramOpts, HistogramVec, IntGaugeVec, Opts, TextEncoder};

/// The upper bounds of the buckets of all histograms, in seconds.
const BUCKETS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// The name of a label, and the values whose series exist from the start. If the list of values is
/// empty, the values are known only while the service runs.
pub type Label = (&'static str, &'static [&'static str]);

/// One series of a [`Counter`].
pub type CounterSeries = prometheus::Counter;
/// One series of a [`Gauge`].
pub type GaugeSeries = prometheus::IntGauge;
/// One series of a [`Histogram`].
pub type HistogramSeries = prometheus::Histogram;

/// The series of one family. Implementations are the vectors of the crate `prometheus`.
pub trait Series: Collector + Sized {
    /// The kind of the family, as in the text format.
    const KIND: &'static str;
    /// One series.
    type One;

    /// Creates a family without series.
    ///
    /// # Errors
    /// Returns an error if a name is invalid.
    fn create(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self>;

    /// Returns the series with these label values. Creates the series if it does not exist. There
    /// must be one value for each label.
    fn one(&self, values: &[&str]) -> Self::One;
}

macro_rules! series {
    ($vector:ty, $kind:literal, $one:ty, $options:expr) => {
        impl Series for $vector {
            const KIND: &'static str = $kind;
            type One = $one;

            fn create(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
                Self::new($options(name, help), labels)
            }

            fn one(&self, values: &[&str]) -> $one {
                self.with_label_values(values)
            }
        }
    };
}

series!(CounterVec, "counter", CounterSeries, Opts::new);
series!(IntGaugeVec, "gauge", GaugeSeries, Opts::new);
series!(HistogramVec, "histogram", HistogramSeries, |name, help| {
    HistogramOpts::new(name, help).buckets(BUCKETS.to_vec())
});

/// A family with `N` labels.
pub struct Family<V, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [Label; N],
    series: OnceLock<V>,
}

/// A number that only increases.
pub type Counter<const N: usize> = Family<CounterVec, N>;

/// A number that increases and decreases.
pub type Gauge<const N: usize> = Family<IntGaugeVec, N>;

/// The distribution of durations, in seconds.
pub type Histogram<const N: usize> = Family<HistogramVec, N>;

impl<V: Series, const N: usize> Family<V, N> {
    pub(super) const fn new(name: &'static str, help: &'static str, labels: [Label; N]) -> Self {
        Self {
            name,
            help,
            labels,
            series: OnceLock::new(),
        }
    }

    /// Returns the series with these values of the labels. Values must come from a fixed set,
    /// because each combination of values uses memory permanently. Clients must not be able to
    /// choose a value.
    #[must_use]
    pub fn with(&self, values: [&str; N]) -> V::One {
        self.series().one(&values)
    }

    fn series(&self) -> &V {
        self.series.get_or_init(|| {
            let labels = self.labels.map(|(name, _)| name);
            #[expect(
                clippy::expect_used,
                reason = "the names are constants, and a test creates every family"
            )]
            let series = V::create(self.name, self.help, &labels).expect("valid names");
            let count = self.labels.iter().map(|(_, values)| values.len()).product();
            for mut number in 0..count {
                // `number` identifies one combination of label values. It has one digit for each
                // label, and the base of this digit is the number of values of the label.
                let values = self.labels.map(|(_, values): Label| {
                    let value = values[number % values.len()];
                    number /= values.len();
                    value
                });
                series.one(&values);
            }
            series
        })
    }
}

impl<const N: usize> Counter<N> {
    /// Adds 1.
    pub fn increment(&self, values: [&str; N]) {
        self.with(values).inc();
    }

    /// Returns the values of all series that exist. The values of the labels have the order of the
    /// family's labels.
    #[must_use]
    pub fn read(&self) -> Vec<([String; N], f64)> {
        let families = self.series().collect();
        let metrics = families.iter().flat_map(MetricFamily::get_metric);
        metrics
            .map(|metric| {
                let value_of = |(name, _): Label| {
                    let mut labels = metric.get_label().iter();
                    let label = labels.find(|label| label.name() == name);
                    label.map_or_else(String::new, |label| label.value().to_owned())
                };
                (self.labels.map(value_of), metric.get_counter().get_value())
            })
            .collect()
    }
}

impl<const N: usize> Histogram<N> {
    /// Adds a duration to the distribution.
    pub fn observe(&self, values: [&str; N], duration: Duration) {
        self.with(values).observe(duration.as_secs_f64());
    }
}

impl Gauge<0> {
    /// Adds 1 until the returned value is dropped.
    pub fn begin(&self) -> InProgress {
        InProgress::begin(self.with([]))
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets the value. A value above the maximum becomes the maximum.
    pub fn set(&self, values: [&str; N], value: impl TryInto<i64>) {
        self.with(values).set(value.try_into().unwrap_or(i64::MAX));
    }

    /// Removes all series.
    pub fn clear(&self) {
        self.series().reset();
    }
}

/// A guard that counts one operation in a gauge until the guard is dropped.
#[must_use]
pub struct InProgress(GaugeSeries);

impl InProgress {
    /// Adds 1 to `gauge` until the returned value is dropped.
    pub fn begin(gauge: GaugeSeries) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl fmt::Debug for InProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProgress").finish_non_exhaustive()
    }
}

impl<V, const N: usize> fmt::Debug for Family<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.name).finish()
    }
}

/// A family of any kind.
pub trait AnyFamily: Sync {
    /// The name.
    fn name(&self) -> &'static str;

    /// The kind: `counter`, `gauge` or `histogram`.
    fn kind(&self) -> &'static str;

    /// The help text.
    fn help(&self) -> &'static str;

    /// The names of the labels.
    fn labels(&self) -> Vec<&'static str>;

    /// Appends all series in the text format. A family without series has only its head.
    ///
    /// # Errors
    /// Returns an error if a series is invalid, which is a bug of the library.
    fn write(&self, text: &mut String) -> prometheus::Result<()>;
}

impl<V: Series + Sync + Send, const N: usize> AnyFamily for Family<V, N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> &'static str {
        V::KIND
    }

    fn help(&self) -> &'static str {
        self.help
    }

    fn labels(&self) -> Vec<&'static str> {
        self.labels.iter().map(|(name, _)| *name).collect()
    }

    fn write(&self, text: &mut String) -> prometheus::Result<()> {
        let families = self.series().collect();
        if families.iter().all(|one| one.get_metric().is_empty()) {
            // The encoder returns an error for a family without series, so only the head is written
            // here.
            let (name, help, kind) = (self.name, self.help, V::KIND);
            for part in [
                "# HELP ",
                name,
                " ",
                help,
                "\n# TYPE ",
                name,
                " ",
                kind,
                "\n",
            ] {
                text.push_str(part);
            }
            return Ok(());
        }
        TextEncoder::new().encode_utf8(&families, text)
    }
}
