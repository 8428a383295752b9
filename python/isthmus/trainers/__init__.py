"""Publishing from where trainers have their own loop.

`isthmus.trainers.huggingface` for Trainer and TRL, `isthmus.trainers.lightning` for PyTorch
Lightning, `isthmus.trainers.optimizer` for any torch optimizer. None is imported before it is asked
for. Loops of one's own call Publisher.publish; examples/trainers/ shows where in some projects.
"""
