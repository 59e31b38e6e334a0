//! A real browser: headless Chromium, controlled through the W3C protocol of the driver that Debian
//! packages.
//!
//! ```ignore
//! let browser = Browser::open(&service.state, &Look::PHONE).await;
//! browser.go(&format!("{}/device", service.base)).await;
//! browser.find("#user_code").await.enter("WDJB-MJHT").await;
//! ```

mod element;
mod options;

use std::fs::{File, read_to_string};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use url::Url;

pub use element::Element;
pub use options::BrowserOptions;

use crate::TEST_TIMEOUT;

/// The variable that names the folder for screenshots. If it is not set, none are taken.
const SCREENSHOTS: &str = "LATCHMAIL_TEST_SCREENSHOTS";

/// The driver's log file in the browser's folder.
const DRIVER_LOG: &str = "driver.log";

/// The interval between checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// The Tab key in the driver's protocol.
pub const TAB: &str = "\u{E004}";
/// The Enter key.
pub const ENTER: &str = "\u{E007}";

/// A browser with one page and a new profile. It ends when it is dropped.
#[derive(Debug)]
pub struct Browser {
    session: String,
    client: reqwest::Client,
    _driver: Driver,
}

/// The driver process and its process group, which contains the browser's processes.
#[derive(Debug)]
struct Driver {
    child: Child,
    folder: PathBuf,
}

impl Driver {
    /// Starts a driver on a free port. The driver chooses a port of IPv6, and exits if the same
    /// port of IPv4 is in use; then another driver is started.
    async fn start(folder: &Path) -> (Self, String) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let driver = Self::spawn(folder);
            if let Some(address) = driver.address(deadline).await {
                return (driver, address);
            }
        }
    }

    fn spawn(folder: &Path) -> Self {
        let output = folder.join(DRIVER_LOG);
        let child = Command::new("/usr/bin/chromedriver")
            .arg("--port=0")
            // Keeps the files outside the profile in this browser's folder too.
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("scripts/setup --tests installs chromium-driver");
        Self {
            child,
            folder: folder.to_owned(),
        }
    }

    /// Returns the driver's address; `None` if it has exited.
    async fn address(&self, deadline: Instant) -> Option<String> {
        loop {
            let text = read_to_string(self.folder.join(DRIVER_LOG)).unwrap();
            let port = text
                .lines()
                .find_map(|line| line.split_once("successfully on port "));
            if let Some((_, port)) = port {
                let port = port.trim_end_matches('.');
                return Some(format!("http://127.0.0.1:{port}"));
            }
            assert!(Instant::now() < deadline, "no browser: {text}");
            if text.contains("port not available") {
                return None;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        // The profile's folder cannot be removed until all processes have ended.
        let deadline = Instant::now() + TEST_TIMEOUT;
        while is_alive(self.child.id(), &self.folder) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns whether a process of this group, or one started for this folder (such as the crash
/// handler), still runs. Zombies do not count.
fn is_alive(group: u32, folder: &Path) -> bool {
    let (group, folder) = (group.to_string(), folder.to_str().unwrap());
    let runs = |process: std::fs::DirEntry| {
        let stat = read_to_string(process.path().join("stat")).ok()?;
        // The name of the process precedes the state and may contain any characters.
        let (_, stat) = stat.rsplit_once(") ")?;
        let mut fields = stat.split(' ');
        let (state, its) = (fields.next()?, fields.nth(1)?);
        let called = std::fs::read(process.path().join("cmdline")).ok()?;
        let for_it = String::from_utf8_lossy(&called).contains(folder);
        Some((its == group || for_it) && !["Z", "X"].contains(&state))
    };
    let mut processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.any(|process| runs(process) == Some(true))
}

impl Browser {
    /// Opens a browser with these options and a profile in a new folder below `state`.
    pub async fn open(state: &Path, options: &BrowserOptions) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("browser")
            .tempdir_in(state)
            .unwrap()
            .keep();
        let (driver, address) = Driver::start(&folder).await;
        let mut browser = Self {
            session: address,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            _driver: driver,
        };
        let parameters =
            json!({ "capabilities": { "alwaysMatch": options.capabilities(&folder) } });
        let session = browser.command("/session", parameters).await;
        let id = session["sessionId"].as_str().unwrap();
        browser.session = format!("{}/session/{id}", browser.session);
        browser.apply_options(options).await;
        if std::env::var_os(SCREENSHOTS).is_some() {
            let hidden = json!({ "hidden": true });
            let command = "Emulation.setScrollbarsHidden";
            browser.devtools(command, hidden).await;
        }
        browser
    }

    /// Changes the size and the colours, and deletes all cookies. Scripts and host names do not
    /// change.
    pub async fn apply_options(&self, options: &BrowserOptions) {
        self.devtools("Network.clearBrowserCookies", json!({}))
            .await;
        for (command, parameters) in options.commands() {
            self.devtools(command, parameters).await;
        }
    }

    /// Loads a URL and waits until the page has loaded.
    pub async fn go(&self, address: &str) {
        self.command("/url", json!({ "url": address })).await;
    }

    /// Returns the URL of the page.
    pub async fn address(&self) -> String {
        self.get("/url").await.as_str().unwrap().to_owned()
    }

    /// Returns the title of the page.
    pub async fn title(&self) -> String {
        self.get("/title").await.as_str().unwrap().to_owned()
    }

    /// Waits until the page shows this text.
    pub async fn wait_for_text(&self, text: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let read = self.read().await;
            if read.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{text:?} did not appear: {read}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the URL begins with `beginning`, and returns the URL.
    pub async fn wait_for_url(&self, beginning: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let address = self.address().await;
            if address.starts_with(beginning) {
                return address;
            }
            let read = self.read().await;
            assert!(Instant::now() < deadline, "{address}: {read}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the visible text, if the page has a body yet.
    async fn read(&self) -> String {
        match self.all("body").await.first() {
            Some(body) => body.try_text().await.unwrap_or_default(),
            None => String::new(),
        }
    }

    /// Returns the value of this query parameter in the URL.
    pub async fn query_parameter(&self, name: &str) -> Option<String> {
        let address = Url::parse(&self.address().await).unwrap();
        let mut pairs = address.query_pairs();
        let pair = pairs.find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
    }

    /// Returns all elements that match a CSS selector.
    pub async fn all(&self, selector: &str) -> Vec<Element<'_>> {
        let parameters = json!({ "using": "css selector", "value": selector });
        let found = self.command("/elements", parameters).await;
        let found = found.as_array().unwrap().iter();
        found.map(|found| Element::of(self, found)).collect()
    }

    /// Returns the only element that matches.
    pub async fn find(&self, selector: &str) -> Element<'_> {
        let mut all = self.all(selector).await;
        assert_eq!(all.len(), 1, "{selector}");
        all.remove(0)
    }

    /// Presses the button or link with this name.
    pub async fn press(&self, name: &str) {
        for element in self.all("button, a").await {
            if element.name().await == name {
                return element.click().await;
            }
        }
        panic!("no {name:?}: {}", self.read().await);
    }

    /// Signs in on a page of the service that shows the form.
    pub async fn sign_in(&self, address: &str, password: &str) {
        self.find("#email").await.enter(address).await;
        self.find("#password").await.enter(password).await;
        self.press("Sign in and allow").await;
    }

    /// Returns the element that has the keyboard focus.
    pub async fn focused(&self) -> Element<'_> {
        Element::of(self, &self.get("/element/active").await)
    }

    /// Types on the keyboard, into the focused element.
    pub async fn keys(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|way| json!({ "type": way, "value": key.to_string() }))
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!([{ "type": "key", "id": "keyboard", "actions": strokes }]);
        self.command("/actions", json!({ "actions": actions }))
            .await;
    }

    /// Evaluates JavaScript in the page. The page's own policy does not apply to it.
    pub async fn evaluate(&self, script: &str) -> Value {
        let parameters = json!({ "script": format!("return {script};"), "args": [] });
        self.command("/execute/sync", parameters).await
    }

    /// Waits until an expression in JavaScript has this value.
    pub async fn wait_for_value(&self, script: &str, expected: &Value) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let is = self.evaluate(script).await;
            if is == *expected {
                return;
            }
            assert!(Instant::now() < deadline, "{script} is {is}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Enters the only frame of the page.
    pub async fn enter_frame(&self) {
        self.command("/frame", json!({ "id": 0 })).await;
    }

    /// Returns the browser's log entries since the last call.
    pub async fn log_entries(&self) -> Vec<String> {
        let log = self.command("/se/log", json!({ "type": "browser" })).await;
        let log = log.as_array().unwrap().iter();
        log.map(|line| line["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Saves a screenshot of the whole page, also of its invisible part, if the variable is set.
    pub async fn screenshot(&self, name: &str) {
        let Some(folder) = std::env::var_os(SCREENSHOTS) else {
            return;
        };
        let layout = self.devtools("Page.getLayoutMetrics", json!({})).await;
        let mut clip = layout["cssContentSize"].clone();
        clip["scale"] = 1.into();
        let parameters = json!({ "captureBeyondViewport": true, "clip": clip });
        let picture = self.devtools("Page.captureScreenshot", parameters).await;
        let picture = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let parameters = json!({ "cmd": command, "params": parameters });
        self.command("/goog/cdp/execute", parameters).await
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.session));
        answered(request).await.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn try_get(&self, path: &str) -> Result<Value, String> {
        answered(self.client.get(format!("{}{path}", self.session))).await
    }

    async fn command(&self, path: &str, parameters: Value) -> Value {
        let answer = self.try_command(path, parameters).await;
        answer.unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    async fn try_command(&self, path: &str, parameters: Value) -> Result<Value, String> {
        let request = self.client.post(format!("{}{path}", self.session));
        answered(request.json(&parameters)).await
    }
}

/// Returns the driver's result, or its error message.
async fn answered(request: reqwest::RequestBuilder) -> Result<Value, String> {
    let response = request.send().await.map_err(|e| e.to_string())?;
    let well = response.status().is_success();
    let mut answer: Value = response.json().await.map_err(|e| e.to_string())?;
    let value = answer["value"].take();
    if well {
        Ok(value)
    } else {
        Err(format!("{}: {}", value["error"], value["message"]))
    }
}
