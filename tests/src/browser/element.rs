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

    /// Returns the accessible name.
    pub async fn name(&self) -> String {
        self.property("computedlabel").await
    }

    /// Returns the accessible role.
    pub async fn role(&self) -> String {
        self.property("computedrole").await
    }

    /// Returns the visible text.
    pub async fn text(&self) -> String {
        self.property("text").await
    }

    /// Returns the visible text, or an error if the element no longer exists.
    pub(super) async fn try_text(&self) -> Result<String, String> {
        let text = self.browser.try_get(&format!("{}/text", self.path)).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Returns the value of the field.
    pub async fn value(&self) -> String {
        self.property("property/value").await
    }

    /// Returns the element's id on the page.
    pub async fn id(&self) -> String {
        self.property("property/id").await
    }

    /// Types into it.
    pub async fn enter(&self, text: &str) {
        let path = format!("{}/value", self.path);
        self.browser.command(&path, json!({ "text": text })).await;
    }

    /// Clicks it.
    pub async fn click(&self) {
        let path = format!("{}/click", self.path);
        self.browser.command(&path, json!({})).await;
    }

    async fn property(&self, what: &str) -> String {
        let value = self.browser.get(&format!("{}/{what}", self.path)).await;
        value.as_str().unwrap_or_default().to_owned()
    }
}
