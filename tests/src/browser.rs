//! A real browser: headless Chromium, controlled through the W3C protocol of the driver that Debian packages.
//!
//! ```ignore
//! let browser = Browser::open(&service.state, &Look::PHONE).await;
//! browser.go(&format!("{}/device", service.base)).await;
//! browser.find("#user_code").await.enter("WDJB-MJHT").await;
//! ```

mod element;
mod look;

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
pub use look::Look;

use crate::EVENTUALLY;

/// The variable that names the folder for screenshots. If it is not set, none are taken.
const SCREENSHOTS: &str = "LATCHMAIL_TEST_SCREENSHOTS";

/// The driver's log file in the browser's folder.
const SAID: &str = "driver.log";

/// The interval between checks of a condition.
const MOMENT: Duration = Duration::from_millis(25);

/// The Tab key in the driver's protocol.
pub const TAB: &str = "\u{E004}";
/// The Enter key.
pub const ENTER: &str = "\u{E007}";

/// A browser with one page and a new profile. Dropping it ends the browser.
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
    /// Starts a driver on a free port. The driver chooses a port of IPv6, and exits if the same port of IPv4 is in use; then another driver is
    /// started.
    async fn start(folder: &Path) -> (Self, String) {
        let patience = Instant::now() + EVENTUALLY;
        loop {
            let driver = Self::spawn(folder);
            if let Some(address) = driver.address(patience).await {
                return (driver, address);
            }
        }
    }

    fn spawn(folder: &Path) -> Self {
        let said = folder.join(SAID);
        let child = Command::new("/usr/bin/chromedriver")
            .arg("--port=0")
            // Keeps the files outside the profile in this browser's folder too.
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(File::create(&said).unwrap())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("scripts/setup --tests installs chromium-driver");
        Self {
            child,
            folder: folder.to_owned(),
        }
    }

    /// The driver's address; `None` if it has exited.
    async fn address(&self, patience: Instant) -> Option<String> {
        loop {
            let text = read_to_string(self.folder.join(SAID)).unwrap();
            let port = text
                .lines()
                .find_map(|line| line.split_once("successfully on port "));
            if let Some((_, port)) = port {
                let port = port.trim_end_matches('.');
                return Some(format!("http://127.0.0.1:{port}"));
            }
            assert!(Instant::now() < patience, "no browser: {text}");
            if text.contains("port not available") {
                return None;
            }
            sleep(MOMENT).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        // The profile's folder cannot be removed until all processes have ended.
        let patience = Instant::now() + EVENTUALLY;
        while is_alive(self.child.id(), &self.folder) && Instant::now() < patience {
            std::thread::sleep(MOMENT);
        }
    }
}

/// Whether a process of this group, or one started for this folder (such as the crash handler), still runs. Zombies do not count.
fn is_alive(group: u32, folder: &Path) -> bool {
    let (group, folder) = (group.to_string(), folder.to_str().unwrap());
    let runs = |process: std::fs::DirEntry| {
        let stat = read_to_string(process.path().join("stat")).ok()?;
        // The name before it may contain any characters.
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
    /// Opens a browser with this look and a profile in a new folder below `state`.
    pub async fn open(state: &Path, look: &Look) -> Self {
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
        let wish = json!({ "capabilities": { "alwaysMatch": look.capabilities(&folder) } });
        let session = browser.ask("/session", wish).await;
        let id = session["sessionId"].as_str().unwrap();
        browser.session = format!("{}/session/{id}", browser.session);
        browser.look_like(look).await;
        browser
    }

    /// Changes size and colours to another look, and deletes all cookies. Scripts and host names stay as they are.
    pub async fn look_like(&self, look: &Look) {
        self.devtools("Network.clearBrowserCookies", json!({}))
            .await;
        for (command, parameters) in look.commands() {
            self.devtools(command, parameters).await;
        }
    }

    /// Loads a URL and waits until the page has loaded.
    pub async fn go(&self, address: &str) {
        self.ask("/url", json!({ "url": address })).await;
    }

    /// The URL of the page.
    pub async fn address(&self) -> String {
        self.get("/url").await.as_str().unwrap().to_owned()
    }

    /// The title of the page.
    pub async fn title(&self) -> String {
        self.get("/title").await.as_str().unwrap().to_owned()
    }

    /// Waits until the page shows this text.
    pub async fn shows(&self, text: &str) {
        let patience = Instant::now() + EVENTUALLY;
        loop {
            let read = self.read().await;
            if read.contains(text) {
                return;
            }
            assert!(Instant::now() < patience, "{text:?} never came: {read}");
            sleep(MOMENT).await;
        }
    }

    /// Waits until the URL begins with `beginning`, and returns the URL.
    pub async fn arrives(&self, beginning: &str) -> String {
        let patience = Instant::now() + EVENTUALLY;
        loop {
            let address = self.address().await;
            if address.starts_with(beginning) {
                return address;
            }
            let read = self.read().await;
            assert!(Instant::now() < patience, "{address}: {read}");
            sleep(MOMENT).await;
        }
    }

    /// The visible text, if the page has a body yet.
    async fn read(&self) -> String {
        match self.all("body").await.first() {
            Some(body) => body.try_text().await.unwrap_or_default(),
            None => String::new(),
        }
    }

    /// The value of this query parameter in the URL.
    pub async fn told(&self, name: &str) -> Option<String> {
        let address = Url::parse(&self.address().await).unwrap();
        let mut pairs = address.query_pairs();
        let pair = pairs.find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
    }

    /// All elements that match a CSS selector.
    pub async fn all(&self, selector: &str) -> Vec<Element<'_>> {
        let wish = json!({ "using": "css selector", "value": selector });
        let found = self.ask("/elements", wish).await;
        let found = found.as_array().unwrap().iter();
        found.map(|found| Element::of(self, found)).collect()
    }

    /// The only element that matches.
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

    /// The element that has the keyboard focus.
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
        self.ask("/actions", json!({ "actions": actions })).await;
    }

    /// Evaluates JavaScript in the page. The page's own policy does not apply to it.
    pub async fn measure(&self, script: &str) -> Value {
        let wish = json!({ "script": format!("return {script};"), "args": [] });
        self.ask("/execute/sync", wish).await
    }

    /// Waits until an expression in JavaScript has this value.
    pub async fn becomes(&self, script: &str, expected: &Value) {
        let patience = Instant::now() + EVENTUALLY;
        loop {
            let is = self.measure(script).await;
            if is == *expected {
                return;
            }
            assert!(Instant::now() < patience, "{script} is {is}");
            sleep(MOMENT).await;
        }
    }

    /// Enters the only frame of the page.
    pub async fn enter_frame(&self) {
        self.ask("/frame", json!({ "id": 0 })).await;
    }

    /// The browser's log entries since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.ask("/se/log", json!({ "type": "browser" })).await;
        let log = log.as_array().unwrap().iter();
        log.map(|line| line["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Saves a screenshot of the page if the variable is set.
    pub async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os(SCREENSHOTS) else {
            return;
        };
        let picture = self.get("/screenshot").await;
        let picture = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let wish = json!({ "cmd": command, "params": parameters });
        self.ask("/goog/cdp/execute", wish).await;
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.session));
        answered(request).await.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn try_get(&self, path: &str) -> Result<Value, String> {
        answered(self.client.get(format!("{}{path}", self.session))).await
    }

    async fn ask(&self, path: &str, wish: Value) -> Value {
        let answer = self.try_ask(path, wish).await;
        answer.unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    async fn try_ask(&self, path: &str, wish: Value) -> Result<Value, String> {
        let request = self.client.post(format!("{}{path}", self.session));
        answered(request.json(&wish)).await
    }
}

/// The driver's result, or its error message.
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
