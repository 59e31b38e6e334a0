//! The metrics of a service, as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Response, Service};

/// The setting that enables the metrics, at any free port.
pub const METRICS: &str = "metrics.listen = '127.0.0.1:0'";

/// The samples of one scrape.
#[derive(Debug)]
pub struct Scrape {
    /// The name and the kind of each family.
    pub families: BTreeMap<String, String>,
    /// The value of each series. A series is the name with the labels, as in the text format.
    pub samples: BTreeMap<String, f64>,
}

impl Service {
    /// Returns the address and the port of the listener for metrics.
    pub fn metrics_address(&self) -> String {
        let running = self.running.as_ref().unwrap();
        let address = running.metrics_address().expect("the metrics are served");
        address.to_string()
    }

    /// Sends a request to the listener for metrics.
    pub async fn send_to_metrics(&self, line: &str) -> Response {
        let (method, path) = line.split_once(' ').unwrap();
        let url = format!("http://{}{path}", self.metrics_address());
        Response::of(self.client.request(method.parse().unwrap(), url)).await
    }

    /// Reads all metrics.
    pub async fn scrape(&self) -> Scrape {
        let response = self.send_to_metrics("GET /metrics").await;
        assert_eq!(response.status, 200);
        let content_type = response.header("content-type").unwrap();
        assert_eq!(content_type, "text/plain; version=0.0.4");
        Scrape::parse(&String::from_utf8(response.body).unwrap())
    }
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let mut families = BTreeMap::new();
        let mut samples = BTreeMap::new();
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                families.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                samples.insert(series.to_owned(), value.parse().unwrap());
            }
        }
        Self { families, samples }
    }

    /// Returns the sum of all series that begin with `name`, and that contain each of the labels,
    /// for example `status="404"`.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let is_named = |series: &str| series == name || series.starts_with(&format!("{name}{{"));
        let matching = self.samples.iter().filter(|(series, _)| {
            is_named(series) && labels.iter().all(|one| series.contains(one))
        });
        matching.map(|(_, value)| value).sum()
    }

    /// Returns the value of a gauge without labels.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "gauges are integers")]
    pub fn gauge(&self, name: &str) -> i64 {
        self.sum(name, &[]) as i64
    }

    /// Returns the names of the labels of a family, without `le`.
    #[must_use]
    pub fn labels(&self, family: &str) -> BTreeSet<String> {
        let series = self.samples.keys().filter_map(|series| {
            let (name, labels) = series.split_once('{')?;
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix).filter(|name| *name == family))
                .unwrap_or(name);
            (name == family).then_some(labels)
        });
        let labels = series.flat_map(|labels| labels.split("=\"").map(last_name));
        let labels = labels.filter(|label| !label.is_empty() && label != "le" && label != "}");
        labels.collect()
    }
}

/// Returns the name of a label at the end of `text`, which follows the value of the previous label.
fn last_name(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let name = text.rsplit(|c: char| !is_name(c)).next();
    name.unwrap_or_default().to_owned()
}
