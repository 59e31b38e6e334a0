//! An element of a page.

use serde_json::{Value, json};

use super::Browser;

/// An element of a page, valid while the page is shown.
#[derive(Clone, Debug)]
pub struct Element<'a> {
    browser: &'a Browser,
    path: String,
}

impl<'a> Element<'a> {
    pub(super) fn of(browser: &'a Browser, found: &Value) -> Self {
        let mut ids = found.as_object().unwrap().values();
        let id = ids.next().and_then(Value::as_str).unwrap();
        Self {
            browser,
            path: format!("/element/{id}"),
        }
    }

    /// The accessible name.
    pub async fn name(&self) -> String {
        self.said("computedlabel").await
    }

    /// The accessible role.
    pub async fn role(&self) -> String {
        self.said("computedrole").await
    }

    /// The visible text.
    pub async fn text(&self) -> String {
        self.said("text").await
    }

    /// The same for an element that may no longer exist.
    pub(super) async fn try_text(&self) -> Result<String, String> {
        let text = self.browser.try_get(&format!("{}/text", self.path)).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// The value of the field.
    pub async fn value(&self) -> String {
        self.said("property/value").await
    }

    /// Its id on the page.
    pub async fn id(&self) -> String {
        self.said("property/id").await
    }

    /// Types into it.
    pub async fn enter(&self, text: &str) {
        let path = format!("{}/value", self.path);
        self.browser.ask(&path, json!({ "text": text })).await;
    }

    /// Clicks it.
    pub async fn click(&self) {
        let path = format!("{}/click", self.path);
        self.browser.ask(&path, json!({})).await;
    }

    async fn said(&self, what: &str) -> String {
        let said = self.browser.get(&format!("{}/{what}", self.path)).await;
        said.as_str().unwrap_or_default().to_owned()
    }
}
