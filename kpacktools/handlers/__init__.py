"""Built-in handlers, one module an engine. They are loaded through the plugin hook, like a third party's."""
