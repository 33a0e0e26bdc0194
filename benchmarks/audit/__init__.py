"""Do audits make predictions better?"""
