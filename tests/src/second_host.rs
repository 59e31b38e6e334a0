//! A second host of a service: the same database, key file and mail servers, with an address, an
//! operator's socket and a search index of its own.

use std::collections::HashMap;

use latchmail_core::config::Config;
use latchmail_http::App;
use latchmail_service::Running;

use crate::{Response, Service};

/// The second host. Stop it before the service.
#[derive(Debug)]
pub struct SecondHost {
    running: Running,
    client: reqwest::Client,
    base: String,
}

impl Service {
    /// Starts a second host of this service in this process, with the same clock.
    pub async fn second_host(&self) -> SecondHost {
        self.second_host_with(|_| ()).await
    }

    /// The same with a changed configuration.
    pub async fn second_host_with(&self, change: impl FnOnce(&mut Config)) -> SecondHost {
        let settings = self
            .settings
            .replace("/admin.sock'", "/admin-2.sock'")
            .replace("/index'", "/index-2'");
        let mut config = Config::parse(&settings, "test", HashMap::new()).unwrap();
        config.events.listen = None;
        change(&mut config);
        let started = Box::pin(latchmail_service::start(config, self.clock.clone())).await;
        let running = started.unwrap();
        SecondHost {
            base: format!("http://{}", running.address),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            running,
        }
    }
}

impl SecondHost {
    /// Returns a request to this host, like [`Service::request`].
    pub fn request(&self, line: &str) -> reqwest::RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        let url = format!("{}{path}", self.base);
        self.client.request(method.parse().unwrap(), url)
    }

    /// Returns the response to a request without credential or body.
    pub async fn send(&self, line: &str) -> Response {
        Response::of(self.request(line)).await
    }

    /// Returns the state of this host.
    pub fn app(&self) -> &App {
        &self.running.app
    }

    /// Stops the host after its active requests.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}
